import { describe, expect, test } from 'vitest';
import { fakeConversation } from './backend/fake';
import { ageOf, filtered, rowsOf, sorted, treemap, type Column } from './cachedlist';

const now = 1_800_000_000_000;
const day = 86_400_000;
const rows = rowsOf([
  fakeConversation({
    key: 'a',
    title: 'Write a parser',
    model: 'Qwen 27B',
    fingerprint: 'q',
    tokens: 900,
    bytes: 60e6,
    hits: 3,
    secondsSaved: 9,
    createdAt: now - 9 * day,
    lastHitAt: now - day / 2,
  }),
  fakeConversation({
    key: 'b',
    title: 'plan 10 trips',
    model: 'Demo',
    fingerprint: 'd',
    tokens: 50,
    bytes: 10e6,
    hits: 0,
    secondsSaved: 0,
    createdAt: now - 2 * day,
    lastHitAt: 0,
  }),
  fakeConversation({
    key: 'c',
    title: 'Plan 9',
    model: 'Qwen 27B',
    fingerprint: 'q',
    tokens: 400,
    bytes: 20e6,
    hits: 7,
    secondsSaved: 2,
    createdAt: now - 40 * day,
    lastHitAt: now - 35 * day,
  }),
  fakeConversation({
    key: '',
    title: 'in memory',
    model: 'Demo',
    fingerprint: 'd',
    tokens: 30,
    memoryTokens: 30,
    bytes: 0,
    hits: 0,
    secondsSaved: 0,
    createdAt: 0,
    lastHitAt: 0,
  }),
]);
const ids = (list: { id: string }[]) => list.map(({ id }) => id).join(' ');

test('a private conversation has no title of its own', () => {
  const [row] = rowsOf([fakeConversation({ key: '', title: '', private: true })]);
  expect(row?.conversation.title).toBe('Private');
});

test('a row matches if it has every word of the filter, in any case and order', () => {
  expect(ids(filtered(rows, ''))).toBe('a b c memory-3');
  expect(ids(filtered(rows, '  PLAN '))).toBe('b c');
  expect(ids(filtered(rows, 'qwen plan'))).toBe('c');
  expect(ids(filtered(rows, 'nothing like it'))).toBe('');
});

test.each<[Column, boolean, string]>([
  ['title', false, 'memory-3 c b a'],
  ['title', true, 'a b c memory-3'],
  ['tokens', true, 'a c b memory-3'],
  ['bytes', true, 'a c b memory-3'],
  ['used', true, 'a b c memory-3'],
  ['hits', true, 'c a b memory-3'],
  ['saved', true, 'a c b memory-3'],
  ['hits', false, 'b memory-3 a c'],
])('by %s, down: %s', (column, down, expected) =>
  expect(ids(sorted(rows, { column, down }))).toBe(expected),
);

test('ages', () => {
  expect([0, 0.9, 1, 6.9, 7, 29, 30, 4000].map((days) => ageOf(now - days * day, now))).toEqual([
    0, 0, 1, 1, 2, 2, 3, 3,
  ]);
});

describe('the treemap', () => {
  const room = { x: 0, y: 0, width: 900, height: 260 };
  const area = ({ width, height }: { width: number; height: number }) => width * height;

  test('has a group for each model and one for shared prefixes, the largest first', () => {
    const groups = treemap(rows, 100e6, room, now);
    expect(groups.map(({ name, bytes }) => [name, bytes])).toEqual([
      ['Qwen 27B', 80e6],
      ['Demo', 10e6],
      ['Shared prompt prefixes', 10e6],
    ]);
    expect(groups.map((group) => ids(group.cells))).toEqual(['a c', 'b', 'shared']);
    expect(groups[0]!.cells.map(({ age }) => age)).toEqual([0, 3]);
    expect(area(groups[0]!.rect) / area(room)).toBeCloseTo(0.8, 6);
    expect(area(groups[0]!.cells[0]!.rect) / area(groups[0]!.cells[1]!.rect)).toBeCloseTo(3, 6);
  });

  test('a small difference between figures makes no group', () => {
    expect(treemap(rows, 90.1e6, room, now)).toHaveLength(2);
    expect(treemap(rows, 0, room, now)).toHaveLength(2);
  });

  test('10,000 conversations make fewer than 250 cells', () => {
    const many = rowsOf(
      Array.from({ length: 10_000 }, (_, i) =>
        fakeConversation({ key: `k${i}`, fingerprint: `f${i % 4}`, bytes: 1e6 + 1e9 / (i + 1) }),
      ),
    );
    const groups = treemap(many, 0, room, now);
    const cells = groups.flatMap((group) => group.cells);
    expect(cells.length).toBeLessThan(250);
    expect(cells.reduce((sum, cell) => sum + cell.count, 0)).toBe(10_000);
    const bytes = many.reduce((sum, row) => sum + row.conversation.bytes, 0);
    expect(cells.reduce((sum, cell) => sum + cell.bytes, 0)).toBeCloseTo(bytes, 0);
  });

  test('an empty cache has no groups', () => expect(treemap([], 0, room, now)).toEqual([]));
});
