import { expect, test } from 'vitest';
import { largestParameters } from './welcome';

test('the largest number of parameters for an amount of memory', () => {
  // 16 * 2^30 * 0.85 / 0.5625 = 25.96e9
  expect(largestParameters(16 * 2 ** 30) / 1e9).toBeCloseTo(25.96, 2);
  expect(largestParameters(-1)).toBe(0);
});
