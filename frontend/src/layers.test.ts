// Checks which folders may import which, and which files may use the network, the runtime of Wails
// and {@html}. The title of each test is the reason for its rule.
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

/** [the files it applies to, what they must not contain, the exempt files, the reason] */
type Rule = [RegExp, RegExp, RegExp | null, string];
const rules: Rule[] = [
  [/^\.\/lib\//, /from '.*(components|views)\//, null, 'lib does not depend on pages'],
  [
    /^\.\/components\/shared\//,
    new RegExp(`from '.*\\.\\./(${folders.join('|')})/|from '.*views/`),
    null,
    'shared components do not depend on pages',
  ],
  ...folders.map((folder): Rule => [
    new RegExp(`^\\./components/${folder}/`),
    new RegExp(`from '.*\\.\\./(${folders.filter((other) => other !== folder).join('|')})/`),
    null,
    'pages do not depend on each other',
  ]),
  [
    /./,
    /\bfetch\(|new EventSource/,
    /^\.\/lib\/(backend\/http|snippets)\.ts$/,
    'only lib/backend/http.ts uses the network',
  ],
  [
    /./,
    /backend\/(http|fake(\/\w+)?)'/,
    /^\.\/(main|testpage)\.ts$/,
    'only main.ts and tests choose a backend',
  ],
  [/./, /\.runtime\b/, /^\.\/lib\/host\.ts$/, 'only lib/host.ts uses the runtime of Wails'],
  [
    /./,
    /\{@html/,
    /^\.\/components\/chat\/Markdown\.svelte$/,
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
