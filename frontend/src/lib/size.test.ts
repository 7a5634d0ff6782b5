import { describe, expect, test } from 'vitest';
import { parseSize, sizeText } from './size';

describe('parseSize', () => {
  test.each<[string, number | null]>([
    ['15', 15e9],
    [' 15 GB ', 15e9],
    ['1.5tb', 1.5e12],
    ['500 MB', 500e6],
    ['1,000 MB', 1e9],
    ['.5 g', 5e8],
    ['', 0],
    ['default', 0],
    ['None', -1],
    ['0', null],
    ['-3 GB', null],
    ['15 GiB', null],
    ['a lot', null],
    ['1.2.3 GB', null],
    ['99999999 TB', null],
  ])('%s → %s', (text, bytes) => expect(parseSize(text)).toBe(bytes));
});

test.each([
  [15e9, '15 GB'],
  [1.5e12, '1.5 TB'],
  [512e6, '512 MB'],
  [0, ''],
  [-1, 'none'],
  [1_234_567, '1.234567 MB'],
  [7, '7 B'],
])('%d is written so that it reads back', (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
  expect(parseSize(text)).toBe(bytes);
});
