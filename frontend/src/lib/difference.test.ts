import { describe, expect, test } from 'vitest';
import { difference } from './difference';

const marked = (was: string, is: string) => {
  const d = difference(was, is);
  return [`${d.before}[${d.was}]${d.wasAfter}`, `${d.before}[${d.is}]${d.isAfter}`];
};

describe('the part that differs is marked', () => {
  test.each([
    [
      'a word',
      '10:01. You are helpful',
      '10:02. You are helpful',
      '10:0[1]. You are helpful',
      '10:0[2]. You are helpful',
    ],
    [
      'more than one character',
      'Nov 9, 2026 at noon',
      'Nov 20, 2026 at noon',
      'Nov [9], 2026 at noon',
      'Nov [20], 2026 at noon',
    ],
    [
      'something put in',
      'Ben in the garden',
      'Ben and Ada in the garden',
      'Ben []in the garden',
      'Ben [and Ada ]in the garden',
    ],
    [
      'something left out',
      'A <think>so</think> B is',
      'A B is',
      'A [<think>so</think> ]B is',
      'A []B is',
    ],
    [
      'texts cut at different places',
      'x=1, then the same te',
      'x=22, then the same',
      'x=[1], then the same te',
      'x=[22], then the same',
    ],
    ['nothing alike', 'abc', 'xyz', '[abc]', '[xyz]'],
    ['one is empty', '', 'new', '[]', '[new]'],
    ['the same', 'same', 'same', 'same[]', 'same[]'],
    ['an end in common', 'abc!', 'xyz!', '[abc]!', '[xyz]!'],
  ])('%s', (_, was, is, wasMarked, isMarked) =>
    expect(marked(was, is)).toEqual([wasMarked, isMarked]),
  );
});

test('characters of several code points stay whole', () => {
  const d = difference('Hi 👩‍👩‍👧 there', 'Hi 👩‍👩‍👦 there');
  expect([d.was, d.is]).toEqual(['👩‍👩‍👧', '👩‍👩‍👦']);
  expect(difference('e\u0301a', 'ea').was).toBe('e\u0301');
});

test('the parts make up both texts', () => {
  const texts = [
    '',
    'a',
    'ab',
    'aab',
    'The cat sat.',
    'The dog sat.',
    'dog The sat. cat',
    '👩‍👧 x',
    'x 👩‍👧',
  ];
  for (const was of texts) {
    for (const is of texts) {
      const d = difference(was, is);
      expect([d.before + d.was + d.wasAfter, d.before + d.is + d.isAfter]).toEqual([was, is]);
    }
  }
});
