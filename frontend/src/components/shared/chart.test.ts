import { describe, expect, test } from 'vitest';
import { roundUp, roundUpBytes, withGaps } from './chart';

describe('roundUp', () => {
  test.each([
    [0, 10, 10],
    [10, 10, 10],
    [11, 10, 15],
    [130, 10, 150],
    [200, 10, 200],
    [201, 10, 300],
    [999, 10, 1000],
    [0.3, 0.5, 0.5],
    [0.61, 0.5, 0.8],
    [NaN, 10, 10],
  ])('%d, at least %d', (value, least, top) => expect(roundUp(value, least)).toBeCloseTo(top, 9));
});

describe('roundUpBytes', () => {
  const MiB = 2 ** 20;
  test.each([
    [0, 128],
    [89, 128],
    [128.5, 256],
    [600, 1024],
    [1024, 1024],
    [1300, 1536],
    [19.4 * 1024, 20 * 1024],
  ])('%d MB, top %d MB', (value, top) => expect(roundUpBytes(value * MiB)).toBe(top * MiB));
});

describe('withGaps', () => {
  test('an empty row breaks the lines at a gap', () => {
    expect(
      withGaps(
        [0, 5, 10, 30, 35],
        [
          [1, 2, 3, 4, 5],
          [6, 7, 8, 9, 0],
        ],
        12,
      ),
    ).toEqual([
      [0, 5, 10, 20, 30, 35],
      [1, 2, 3, null, 4, 5],
      [6, 7, 8, null, 9, 0],
    ]);
  });
  test('empty columns stay empty', () => expect(withGaps([], [[]], 12)).toEqual([[], []]));
});
