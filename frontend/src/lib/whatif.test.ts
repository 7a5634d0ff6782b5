import { expect, test } from 'vitest';
import { contextSteps, nearestStep, parseGB } from './whatif';

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

test.each([
  ['20', 20 * GiB],
  ['20 GB', 20 * GiB],
  ['1.5', 1.5 * GiB],
  ['', null],
  ['all', null],
  ['-3', null],
])('a limit of %j is %s', (text, bytes) => expect(parseGB(text)).toBe(bytes));
