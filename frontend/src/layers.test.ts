// Who may import whom, and who may touch the outside. Each rule holds its reason.
import { describe, expect, test } from 'vitest';

const sources = import.meta.glob('./**/*.{ts,svelte}', {
  query: '?raw',
  import: 'default',
  eager: true,
}) as Record<string, string>;
const files = Object.entries(sources).filter(([path]) => !path.endsWith('.test.ts'));

/** The folders of the pages' components. */
const folders = [
  ...new Set(files.map(([path]) => /^\.\/components\/(\w+)\//.exec(path)?.[1] ?? 'shared')),
].filter((folder) => folder !== 'shared');

/** [files of, must not contain, except in, because] */
type Rule = [RegExp, RegExp, RegExp | null, string];
const rules: Rule[] = [
  [
    /^\.\/lib\//,
    /from '.*(components|views)\//,
    null,
    'lib is what pages are made from: it runs without them',
  ],
  [
    /^\.\/components\/shared\//,
    new RegExp(`from '.*\\.\\./(${folders.join('|')})/|from '.*views/`),
    null,
    'shared components know no page',
  ],
  ...folders.map((folder): Rule => [
    new RegExp(`^\\./components/${folder}/`),
    new RegExp(`from '.*\\.\\./(${folders.filter((other) => other !== folder).join('|')})/`),
    null,
    'the pages do not know each other',
  ]),
  [
    /./,
    /\bfetch\(|new EventSource/,
    /^\.\/lib\/(backend\/http|snippets)\.ts$/,
    'the network has one door: lib/backend/http.ts',
  ],
  [/./, /backend\/(http|fake(\/\w+)?)'/, /^\.\/main\.ts$/, 'only main.ts chooses a backend'],
  [
    /./,
    /\.runtime\b/,
    /^\.\/lib\/host\.ts$/,
    'only lib/host.ts knows that the window may be Wails',
  ],
  [
    /./,
    /\{@html/,
    /^\.\/components\/chat\/Message\.svelte$/,
    'HTML enters the page in one place, sanitized by lib/markdown.ts',
  ],
  [
    /./,
    /(src|href|url)\s*[=(]\s*["']?\/(?!\/)/,
    null,
    'addresses are relative: the window serves the pages from wails://',
  ],
];

test('the sources are found', () => {
  expect(files.length).toBeGreaterThan(30);
  expect(folders).toContain('overview');
});

describe.each(rules)('%s', (where, banned, except, because) => {
  test(because, () => {
    const guilty = files.filter(
      ([path, text]) => where.test(path) && !except?.test(path) && banned.test(text),
    );
    expect(guilty.map(([path]) => path)).toEqual([]);
  });
});
