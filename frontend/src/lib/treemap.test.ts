import { describe, expect, test } from 'vitest';
import { squarify, type Rect } from './treemap';

const within: Rect = { x: 10, y: 20, width: 600, height: 400 };
const area = (rect: Rect) => rect.width * rect.height;
const ratio = (rect: Rect) => Math.max(rect.width / rect.height, rect.height / rect.width);

test('the example of the paper: 6, 6, 4, 3, 2, 2, 1 on 6 by 4', () => {
  const rects = squarify([6, 6, 4, 3, 2, 2, 1], { x: 0, y: 0, width: 6, height: 4 });
  const rounded = rects.map(({ x, y, width, height }) =>
    [x, y, width, height].map((n) => Math.round(100 * n) / 100),
  );
  expect(rounded).toEqual([
    [0, 0, 3, 2],
    [0, 2, 3, 2],
    [3, 0, 1.71, 2.33],
    [4.71, 0, 1.29, 2.33],
    [3, 2.33, 1.2, 1.67],
    [4.2, 2.33, 1.2, 1.67],
    [5.4, 2.33, 0.6, 1.67],
  ]);
});

describe('for any values', () => {
  // A generator with a fixed seed, so that a failure can be reproduced.
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  test.each([1, 2, 3, 17, 200])(
    '%d rectangles fill the room, in proportion, without overlap',
    (n) => {
      const values = Array.from({ length: n }, () => random() ** 3 + 0.001).sort((a, b) => b - a);
      const sum = values.reduce((all, value) => all + value, 0);
      const rects = squarify(values, within);
      rects.forEach((rect, i) =>
        expect(area(rect)).toBeCloseTo((values[i]! / sum) * area(within), 3),
      );
      for (const rect of rects) {
        expect(rect.x).toBeGreaterThanOrEqual(within.x);
        expect(rect.y).toBeGreaterThanOrEqual(within.y);
        expect(rect.x + rect.width).toBeLessThanOrEqual(within.x + within.width + 1e-6);
        expect(rect.y + rect.height).toBeLessThanOrEqual(within.y + within.height + 1e-6);
      }
      const overlap = (a: Rect, b: Rect) =>
        Math.max(0, Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x)) *
        Math.max(0, Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y));
      const shared = rects.reduce(
        (most, a, i) => Math.max(most, ...rects.slice(i + 1).map((b) => overlap(a, b)), 0),
        0,
      );
      expect(shared).toBeLessThan(1e-6);
    },
  );
});

test('equal values give rectangles that are nearly square', () => {
  for (const rect of squarify(Array(24).fill(5), within)) expect(ratio(rect)).toBeLessThan(1.6);
});

test('no values, or no area', () => {
  expect(squarify([], within)).toEqual([]);
  expect(squarify([0, -1, NaN], within).map(area)).toEqual([0, 0, 0]);
  expect(squarify([3, 0, 1], within).map(area).map(Math.round)).toEqual([180000, 0, 60000]);
  expect(squarify([1, 2], { x: 0, y: 0, width: 0, height: 10 }).map(area)).toEqual([0, 0]);
});
