import { describe, expect, test } from 'vitest';
import { roundUp, roundUpBytes, scaleLinear, segmentsOf } from './chart';

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

test('scaleLinear, also over nothing', () => {
  expect(scaleLinear(10, 20, 0, 100)(15)).toBe(50);
  expect(scaleLinear(0, 1, 60, 0)(0.25)).toBe(45);
  expect(scaleLinear(5, 5, 7, 9)(5)).toBe(7);
});

test('the line breaks at pauses', () => {
  const at = (...times: number[]) => times.map((time) => ({ at: time, value: 0 }));
  expect(segmentsOf(at(0, 5, 10, 30, 35), 12)).toEqual([at(0, 5, 10), at(30, 35)]);
  expect(segmentsOf([], 12)).toEqual([]);
});
