import { expect, test } from 'vitest';
import { fakeState } from './backend/fake';
import { contextSteps, nearestStep, parseGB, plannedSegments } from './whatif';

const GiB = 2 ** 30;

test('contexts double up to the trained context', () => {
  expect(contextSteps(32768)).toEqual([2048, 4096, 8192, 16384, 32768]);
  expect(contextSteps(40960)).toEqual([2048, 4096, 8192, 16384, 32768, 40960]);
  expect(contextSteps(512)).toEqual([512]);
  expect(contextSteps(0)).toEqual([1]);
});

test('a context has a position on the slider', () => {
  const steps = contextSteps(32768);
  expect([1, 2048, 5000, 6000, 1e9].map((tokens) => steps[nearestStep(steps, tokens)])).toEqual([
    2048, 2048, 4096, 8192, 32768,
  ]);
});

const plan = (gb: number) => ({
  name: '',
  kvFormat: '',
  kvBits: '',
  kvBytesPerToken: 1,
  weightsBytes: gb * GiB,
  kvBytes: GiB,
  stateBytes: 0,
  scratchBytes: 0,
  needBytes: (gb + 1) * GiB,
  fits: 'yes' as const,
  largestContextTokens: 1,
});

test("the plan replaces the engine's segments, and the rest is free", () => {
  const { memory } = fakeState(); // 24 GB, of which 0.3 are Headroom's and 7.2 others'
  const { segments, totalBytes } = plannedSegments(memory, plan(10));
  const bytes = Object.fromEntries(
    segments.map((segment) => [segment.kind, Math.round((segment.bytes / GiB) * 10) / 10]),
  );
  expect(bytes).toMatchObject({
    weights: 10,
    kv_used: 1,
    kv_cached: 0,
    headroom: 0.3,
    other: 7.2,
    free: 5.5,
  });
  expect(totalBytes).toBe(24 * GiB);
  expect(segments.reduce((sum, segment) => sum + segment.bytes, 0)).toBeCloseTo(totalBytes, -3);
});

test('a plan larger than the memory makes the bar longer', () => {
  const { segments, totalBytes } = plannedSegments(fakeState().memory, plan(20));
  expect(totalBytes / GiB).toBeCloseTo(28.5, 5);
  expect(segments.find(({ kind }) => kind === 'free')?.bytes).toBe(0);
});

test.each([
  ['20', 20 * GiB],
  ['20 GB', 20 * GiB],
  ['1.5', 1.5 * GiB],
  ['', null],
  ['all', null],
  ['-3', null],
])('a limit of %j is %s', (text, bytes) => expect(parseGB(text)).toBe(bytes));
