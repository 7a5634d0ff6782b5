// Every text on screen is in strings/, so that the texts of a page can be read in one sitting. Each
// view or component has its texts in one exported object there, which is called a view below.
import { parse } from 'svelte/compiler';
import ts from 'typescript';
import { expect, test } from 'vitest';

const sources = Object.entries(
  import.meta.glob('./**/*.{ts,svelte}', {
    query: '?raw',
    import: 'default',
    eager: true,
  }) as Record<string, string>,
).filter(([path]) => !/\.test\.ts$|^\.\/strings\/|\/backend\/(fake|schema)/.test(path));

/** Files whose literals look like texts but are not, each with the reason. */
const exempt: Record<string, string> = {
  './components/shared/tip.ts': 'CSS',
  './lib/appearance.ts': 'CSS',
  './lib/attachments.ts': 'what a model reads',
  './lib/markdown.ts': 'HTML',
  './lib/size.ts': 'what a person may type',
  './lib/snippets.ts': 'code for other programs',
  './lib/tools.ts': 'settings of other programs',
};

/** Single capitalized words that are names of keys, drag types and schemas. */
const names = new Set('Backspace Delete End Enter Escape Files Home Job Sharing Tab'.split(' '));

/** Attributes that a browser shows or a screen reader says. */
const spoken = /^(aria-(description|label|valuetext)|alt|label|placeholder|title)$/;

/** Whether a literal reads like a text: a capitalized word, or two words. */
function isText(literal: string): boolean {
  if (names.has(literal)) return false;
  return /^\s*\p{Lu}\p{Ll}+([ .:…]|$)/u.test(literal) || /\p{L}{2} \p{L}{2}/u.test(literal);
}

/** The literals of a TypeScript source that read like texts. */
function textsOfScript(source: string): string[] {
  const texts: string[] = [];
  const visit = (node: ts.Node) => {
    if (ts.isImportDeclaration(node) || ts.isLiteralTypeNode(node)) return;
    if (ts.isStringLiteral(node) || ts.isTemplateLiteralToken(node)) texts.push(node.text);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('source.ts', source, ts.ScriptTarget.Latest));
  return texts.filter(isText);
}

interface Node {
  type?: string;
  name?: string;
  data?: string;
  value?: unknown;
}

/** The texts of a Svelte component: in its script, between its tags, and in its attributes. */
function textsOfComponent(source: string): string[] {
  const texts: string[] = [];
  /** attribute: the name of the attribute around a node; '' outside. */
  const visit = (node: unknown, attribute: string) => {
    if (Array.isArray(node)) return node.forEach((one) => visit(one, attribute));
    if (typeof node !== 'object' || node === null) return;
    const { type, name, data = '', value } = node as Node;
    if (type === 'Comment' || type === 'StyleSheet') return;
    if (type === 'Text' && /\p{L}/u.test(data) && (!attribute || spoken.test(attribute)))
      texts.push(data);
    if (type === 'Literal' && typeof value === 'string' && isText(value)) texts.push(value);
    if (type === 'TemplateElement' && isText((value as { cooked: string }).cooked))
      texts.push((value as { cooked: string }).cooked);
    for (const child of Object.values(node))
      visit(child, type === 'Attribute' ? (name ?? '') : attribute);
  };
  visit(parse(source, { modern: true }).fragment, '');
  for (const [, script] of source.matchAll(/<script[^>]*>(.*?)<\/script>/gs))
    texts.push(...textsOfScript(script!));
  return texts;
}

const textsOf = (path: string, source: string) =>
  path.endsWith('.svelte') ? textsOfComponent(source) : textsOfScript(source);

test.each(sources.filter(([path]) => !(path in exempt)))('%s has no text', (path, source) => {
  expect(textsOf(path, source)).toEqual([]);
});

test('exempt files exist and have literals that read like texts', () => {
  for (const path of Object.keys(exempt)) {
    const source = sources.find(([one]) => one === path)?.[1] ?? '';
    expect(textsOf(path, source), path).not.toEqual([]);
  }
});

test.each([
  ['a.ts', "const label = 'Stopped';", ['Stopped']],
  ['a.ts', 'const label = `Paused at ${done}`;', ['Paused at ']],
  ['a.ts', "const label = 'paused at last';", ['paused at last']],
  ['a.ts', "import { a } from './Some File'; type A = 'Some Text'; key === 'Enter'; f('px');", []],
  ['a.svelte', '<p class="quiet num">{t.text}</p>', []],
  ['a.svelte', '<p>, {name}</p>', []],
  ['a.svelte', '<p>of {name}</p>', ['of ']],
  ['a.svelte', '<p aria-label="close">{t.text}</p>', ['close']],
  ['a.svelte', "<p title={on ? 'Turn off' : t.on}>{t.text}</p>", ['Turn off']],
  ['a.svelte', '<script lang="ts">let a = "Two words";</script>', ['Two words']],
  ['a.svelte', '<p>{`Two words ${a}`}</p>', ['Two words ']],
])('%s: %s', (path, source, texts) => expect(textsOf(path, source)).toEqual(texts));

/** Maps each view that a source imports from one file of strings to its name in that source. */
function importsOf(source: string, file: string): Map<string, string> {
  const found = new RegExp(`import (?:type )?{([^}]*)} from '[^']*strings/${file}'`).exec(source);
  const parts = (found?.[1] ?? '').split(',').map((part) => part.trim().split(' as '));
  return new Map(parts.map(([view = '', name = view]) => [view, name]));
}

/** Whether a source uses a string of a view, or the view as a whole. */
function uses(source: string, name: string, key: string): boolean {
  const code = source.replace(/^ *import (type )?[{\w][^;]*;/gm, '');
  return new RegExp(`\\b${name}(\\.${key}\\b|(?!\\w|\\.|'))`).test(code);
}

const strings = Object.entries(
  import.meta.glob('./strings/*.ts', { eager: true }) as Record<string, object>,
)
  .map(([path, views]) => [path.replace(/^.*\/(\w+)\.ts$/, '$1'), Object.entries(views)] as const)
  .filter(([file]) => file !== 'text');

test.each(strings)('every string of %s is used', (file, views) => {
  const unused = views.flatMap(([view, texts]) => {
    const importers = sources.flatMap(([, source]) => {
      const name = importsOf(source, file).get(view);
      return name === undefined ? [] : [{ source, name }];
    });
    const keys = typeof texts === 'object' ? Object.keys(texts as object) : [];
    return [...keys, ...(keys.length === 0 ? [''] : [])]
      .filter((key) => !importers.some(({ source, name }) => uses(source, name, key)))
      .map((key) => `${view}.${key}`);
  });
  expect(unused).toEqual([]);
});
