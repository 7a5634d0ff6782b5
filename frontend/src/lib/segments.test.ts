import { expect, test } from 'vitest';
import type { Segment } from './backend/types';
import { orderedSegments } from './segments';

const segment = (kind: string, bytes: number) => ({ kind, bytes, source: 'measured' }) as Segment;

test('segments are in drawing order, each known kind once, without negative sizes', () => {
  const given = [
    segment('free', 5),
    segment('weights', 1),
    segment('scratch', -3),
    segment('weights', 2),
    segment('new', 9),
  ];
  expect(orderedSegments(given).map(({ kind, bytes }) => [kind, bytes])).toEqual([
    ['weights', 3],
    ['scratch', 0],
    ['free', 5],
  ]);
});

test('no segments, no bar', () => expect(orderedSegments([])).toEqual([]));
