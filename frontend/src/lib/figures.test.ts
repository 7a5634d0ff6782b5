import { describe, expect, test } from 'vitest';
import { fakeFinished, fakeModel } from './backend/fake';
import type { Job } from './backend/transfers';
import type { Model, Segment } from './backend/types';
import {
  cacheSentence,
  downloadSentence,
  jobSentence,
  lineSentence,
  loadingSentence,
  memorySentence,
  needSentence,
  prefillSentence,
  promptSentence,
  treemapSentence,
} from './figures';

const GiB = 2 ** 30;

describe('the memory bar', () => {
  const segments: Segment[] = [
    { kind: 'weights', bytes: 6 * GiB, source: 'measured' },
    { kind: 'scratch', bytes: 0, source: 'estimated' },
    { kind: 'other', bytes: 8 * GiB, source: 'estimated' },
    { kind: 'free', bytes: 10 * GiB, source: 'reported' },
  ];
  test('names each part that has a size, and its share', () =>
    expect(memorySentence(segments, 24 * GiB)).toBe(
      'Of 24.0 GB of memory: Weights 6.0 GB (25 %), Other apps ~8.0 GB (33 %), ' +
        'Free 10.0 GB (42 %).',
    ));
  test('ends with the marks that are shown', () =>
    expect(
      memorySentence(segments.slice(0, 1), 24 * GiB, {
        wiredBytes: 18 * GiB,
        recommendedBytes: 16 * GiB,
        endBytes: 20 * GiB,
      }),
    ).toBe(
      'Of 24.0 GB of memory: Weights 6.0 GB (25 %). The wired limit is 18.0 GB. ' +
        'Metal recommends at most 16.0 GB. This computer has 20.0 GB.',
    ));
});

test('the bar of a model says its need, or its downloaded share', () => {
  const model = fakeModel({ id: 'm', needBytes: 7 * GiB });
  expect(needSentence(model, 15 * GiB)).toBe('It needs ~7.0 GB, of 15.0 GB available.');
  const download = { doneBytes: 36e8, totalBytes: 1e10, missing: [], parts: [] };
  expect(needSentence({ ...model, state: 'downloading', download }, 0)).toBe(
    '36 percent of it is downloaded.',
  );
  expect(needSentence({ ...model, error: 'damaged' }, 15 * GiB)).toBe('');
});

test('the bar of a finished request says where its prompt came from', () => {
  const request = {
    ...fakeFinished()[0]!,
    promptTokens: 8192,
    memoryTokens: 42,
    diskTokens: 0,
    computedTokens: 8150,
  };
  expect(promptSentence(request)).toBe(
    'Of a prompt of 8,192 tokens, 42 came from memory, 8,150 were computed.',
  );
});

test('the treemap says its size and its largest conversation', () => {
  expect(treemapSentence([{ title: 'Memory only', bytes: 0 }], 'Untitled', 0)).toBe(
    'The cache holds no conversations on disk.',
  );
  expect(treemapSentence([{ title: '', bytes: 3e9 }], 'Untitled', 3e9)).toBe(
    'The cache holds 1 conversation in 3.0 GB. The largest is “Untitled” with 3.0 GB.',
  );
  const two = [
    { title: 'Small', bytes: 1e9 },
    { title: 'Large', bytes: 2e9 },
  ];
  expect(treemapSentence(two, 'Untitled', 3.5e9)).toBe(
    'The cache holds 2 conversations in 3.5 GB. The largest is “Large” with 2.0 GB.',
  );
});

test('the meter of the disk cache', () =>
  expect(cacheSentence(4.2e9, 20e9)).toBe('The disk cache uses 4.2 GB of 20.0 GB, which is 21 %.'));

test('the progress of a prefill', () =>
  expect(prefillSentence(3072, 8192, 2048)).toBe(
    'Prefill: 3,072 of 8,192 tokens of the prompt, 38 percent, 2,048 of them from the cache.',
  ));

test('the progress of a prefill without cached tokens', () =>
  expect(prefillSentence(10, 3000)).toBe(
    'Prefill: 10 of 3,000 tokens of the prompt, less than 1 percent.',
  ));

test('the progress of loading', () =>
  expect(loadingSentence('Qwen3-0.6B', 0.45)).toBe('Loading Qwen3-0.6B: 45 percent.'));

test('the progress of a download', () => {
  const download = { doneBytes: 1e9, totalBytes: 4e9, missing: ['a', 'b'], parts: ['c'] };
  const model = { name: 'Qwen3-0.6B', download } as unknown as Model;
  expect(downloadSentence(model)).toBe(
    'Downloading Qwen3-0.6B: 1.0 GB of 4.0 GB, 25 percent. 3 files are incomplete.',
  );
  model.download = { ...download, missing: [], parts: [] };
  expect(downloadSentence(model)).toBe('Downloading Qwen3-0.6B: 1.0 GB of 4.0 GB, 25 percent.');
});

test('the progress of a job', () => {
  const job = { kind: 'import', title: 'Qwen3-0.6B', doneBytes: 1e9, totalBytes: 4e9 } as Job;
  expect(jobSentence(job)).toBe('Importing Qwen3-0.6B: 1.0 GB of 4.0 GB, 25 percent.');
  expect(jobSentence({ ...job, kind: 'download', totalBytes: 0 })).toBe(
    'Downloading Qwen3-0.6B: 1.0 GB so far.',
  );
  expect(jobSentence({ ...job, kind: 'cache', title: '/cache' })).toBe(
    'Moving the cache to /cache: 1.0 GB of 4.0 GB, 25 percent.',
  );
});

describe('a line of a chart', () => {
  const format = (value: number) => `${value} tok/s`;
  test('says its last value, its mean and its greatest', () =>
    expect(lineSentence('Decode speed', [2, 10, 3], format)).toBe(
      'Decode speed is 3 tok/s now. In the last 10 minutes it was 5 tok/s on average and ' +
        '10 tok/s at most.',
    ));
  test('says that nothing was measured', () =>
    expect(lineSentence('Decode speed', [], format)).toBe(
      'Decode speed: nothing was measured in the last 10 minutes.',
    ));
});
