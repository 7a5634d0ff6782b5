import { expect, test } from 'vitest';
import { leastOf, pointsOf, polyline, rangeOf, rowsOf } from './curves';

const curve = (...losses: number[]) => losses.map((loss, index) => ({ iteration: index, loss }));

test('the range has all losses and the whole training', () => {
  expect(rangeOf({ train: [], valid: [] }, 100)).toBeNull();
  const range = rangeOf({ train: curve(3, 2), valid: curve(4) }, 100)!;
  expect(range.end).toBe(100);
  expect(range.least).toBeLessThan(2);
  expect(range.most).toBeGreaterThan(4);
  // A flat curve still has a height, and an iteration beyond the end widens the range.
  const flat = rangeOf({ train: [{ iteration: 7, loss: 1 }], valid: [] }, 5)!;
  expect(flat.most - flat.least).toBeGreaterThan(0);
  expect(flat.end).toBe(7);
});

test('points lie in the box, the greatest loss above', () => {
  const points = pointsOf(curve(2, 1), { least: 1, most: 2, end: 2 }, 100, 50);
  expect(points).toEqual([
    { x: 0, y: 0 },
    { x: 50, y: 50 },
  ]);
  expect(polyline(points)).toBe('0.0,0.0 50.0,50.0');
});

test('the table is short and keeps every validation and the end', () => {
  const train = curve(...Array.from({ length: 1000 }, (_, index) => 1000 - index));
  const rows = rowsOf({ train, valid: [{ iteration: 333, loss: 1 }] }, 40);
  expect(rows.length).toBeLessThan(43);
  expect(rows.find(({ iteration }) => iteration === 333)).toEqual({
    iteration: 333,
    train: 667,
    valid: 1,
  });
  expect(rows.at(-1)).toEqual({ iteration: 999, train: 1, valid: null });
  expect(leastOf(train)).toEqual({ iteration: 999, loss: 1 });
  expect(leastOf([])).toBeNull();
});
