import { expect, test } from 'vitest';
import { visibleRows } from './table';

test('only the rows near the visible ones are rendered', () => {
  expect(visibleRows(10_000, 40, 0, 400)).toEqual({ from: 0, to: 17 });
  expect(visibleRows(10_000, 40, 4000, 400)).toEqual({ from: 94, to: 117 });
  expect(visibleRows(10_000, 40, 399_600, 400)).toEqual({ from: 9984, to: 10_000 });
  expect(visibleRows(3, 40, 4000, 400)).toEqual({ from: 0, to: 3 });
  expect(visibleRows(0, 40, 0, 400)).toEqual({ from: 0, to: 0 });
});
