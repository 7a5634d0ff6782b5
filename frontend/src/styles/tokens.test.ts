// Computes the WCAG 2.2 contrast of every pair of colours that is used together on a page.
import { describe, expect, test } from 'vitest';
import css from './tokens.css?raw';

type Theme = Record<string, string>;

const [lightCss, darkCss] = css.split('@media (prefers-color-scheme: dark)') as [string, string];
const light = colours(lightCss);
const dark: Theme = { ...light, ...colours(darkCss) };

function colours(text: string): Theme {
  return Object.fromEntries(
    [...text.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/g)].map(([, name, hex]) => [name, hex]),
  );
}

/** Relative luminance, WCAG 2.2. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const grounds = ['bg', 'surface', 'sunken', 'sidebar', 'hover'];
const texts: [string, string[]][] = [
  [
    'text',
    [
      ...grounds,
      'accent-soft',
      'selected',
      'amber-soft',
      'red-soft',
      'age-0',
      'age-1',
      'age-2',
      'age-3',
    ],
  ],
  ['text-2', [...grounds, 'accent-soft', 'amber-soft', 'red-soft']],
  ['accent-text', ['bg', 'surface', 'sunken', 'sidebar', 'accent-soft', 'selected']],
  ['on-button', ['button']],
  ['amber', ['bg', 'surface', 'amber-soft']],
  ['red', ['surface', 'red-soft']],
  ...['keyword', 'string', 'number', 'title'].map((part): [string, string[]] => [
    `code-${part}`,
    ['surface'],
  ]),
];
const marks = [
  'accent',
  'line-strong',
  'seg-weights',
  'seg-kv_used',
  'seg-kv_cached',
  'seg-state',
  'seg-scratch',
  'seg-headroom',
  'seg-other',
  'disk',
  'again',
];

test('the formula: black on white is 21, grey #767676 on white just passes', () => {
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21, 5);
  expect(contrast('#767676', '#ffffff')).toBeCloseTo(4.54, 2);
});

describe.each<[string, Theme]>([
  ['light', light],
  ['dark', dark],
])('%s', (_, theme) => {
  const colour = (name: string) => {
    expect(theme, `--${name}`).toHaveProperty([name]);
    return theme[name]!;
  };
  test.each(texts.flatMap(([text, on]) => on.map((ground) => [text, ground])))(
    '%s on %s is readable',
    (text, ground) => {
      expect(contrast(colour(text!), colour(ground!))).toBeGreaterThanOrEqual(4.5);
    },
  );
  test.each(marks)('%s is visible on a card', (mark) => {
    expect(contrast(colour(mark), colour('surface'))).toBeGreaterThanOrEqual(3);
  });
});

test('the dark theme overrides every colour', () => {
  expect(Object.keys(colours(darkCss)).sort()).toEqual(Object.keys(light).sort());
});
