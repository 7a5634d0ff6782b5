import { Lexer } from 'marked';
import { describe, expect, test, vi } from 'vitest';
import { plainLine, renderBlocks, renderMarkdown } from './markdown';

/** Resolves when a text is rendered with its colours and formulas. */
async function renderFully(text: string): Promise<HTMLElement> {
  render(text);
  await vi.waitFor(
    () => expect(renderMarkdown(text)).toMatch(/hljs-|katex/),
    60_000, // a machine may take that long to read the libraries
  );
  return render(text);
}

function render(text: string): HTMLElement {
  const element = document.createElement('div');
  element.innerHTML = renderMarkdown(text);
  return element;
}

test('the usual Markdown', () => {
  const page = render(
    '# Title\n\n- **a**\n- `b`\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\nline\nbreak',
  );
  expect(page.querySelector('h1')?.textContent).toBe('Title');
  expect(page.querySelectorAll('li')).toHaveLength(2);
  expect(page.querySelector('td')?.textContent).toBe('1');
  expect(page.querySelector('p br')).not.toBeNull();
});

test('code keeps its text and gets a copy button', () => {
  const page = render('```python\nif a < b:\n    print("&amp;")\n```');
  expect(page.querySelector('pre code')?.textContent).toBe('if a < b:\n    print("&amp;")\n');
  expect(page.querySelector('.code-head span')?.textContent).toBe('python');
  expect(page.querySelector('[data-copy]')).not.toBeNull();
});

test('an unfinished code block is a code block', () => {
  expect(render('```js\nlet a').querySelector('code')?.textContent).toBe('let a\n');
});

describe('active content of a model is removed', () => {
  test.each([
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    'text <b onclick="alert(1)">bold</b>',
    '<iframe src="https://example.com"></iframe>',
    '[x](javascript:alert(1))',
    '![x](https://example.com/pixel.png)',
    '![x" onerror="alert(1)](y)',
    '```"><script>alert(1)</script>\ncode\n```',
    '<style>body{display:none}</style>',
    '<svg><a xlink:href="javascript:alert(1)">x</a></svg>',
  ])('%s', (text) => {
    const page = render(text);
    expect(page.querySelector('script, img, iframe, style, svg, b')).toBeNull();
    for (const element of page.querySelectorAll('*')) {
      for (const { name, value } of element.attributes) {
        expect(name).not.toMatch(/^on/);
        expect(value).not.toMatch(/^javascript:/i);
      }
    }
  });
});

test('HTML is shown as it was written', () => {
  expect(render('Use <b>bold</b>').textContent?.trim()).toBe('Use <b>bold</b>');
});

test('links open outside and send no referrer', () => {
  const link = render('[x](https://example.com/)').querySelector('a');
  expect(link?.getAttribute('target')).toBe('_blank');
  expect(link?.getAttribute('rel')).toBe('noopener noreferrer');
});

function indentedList(depth: number): string {
  return Array.from({ length: depth }, (_, n) => `${'  '.repeat(n)}- x`).join('\n');
}

describe('text that nests without end is shown as it is', () => {
  test.each([
    ['quotes', '>'.repeat(6000)],
    ['quotes with spaces', '> '.repeat(1000)],
    ['lists', '- '.repeat(500)],
    ['numbered lists', '1. '.repeat(500)],
    ['indented lists', indentedList(600)],
    ['emphasis', '*a _b '.repeat(1200) + 'b_ a*'.repeat(1200)],
    ['in a later line', `Well:\n\n${'>'.repeat(6000)}\n\nand on`],
  ])('%s', (_, text) => {
    const page = render(text);
    expect(page.textContent?.replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''));
  });
});

test('text whose parsing exhausts the stack is shown as it is', () => {
  const lex = vi.spyOn(Lexer, 'lex').mockImplementation(() => {
    throw new RangeError('Maximum call stack size exceeded');
  });
  expect(render('a *b*\n<i>').innerHTML).toContain('a *b*<br>&lt;i&gt;');
  expect(lex).toHaveBeenCalled();
  lex.mockRestore();
});

test('a paragraph of thousands of marks is shown as it is, code and tables are not', () => {
  for (const marks of ['*a **b '.repeat(3000), '~a ~~b '.repeat(3000)]) {
    expect(render(marks).querySelector('em, del')).toBeNull();
    expect(render(marks).textContent?.trim()).toBe(marks.trim());
  }
  const code = `\`\`\`c\n${'*a_b = **c;\n'.repeat(1000)}`;
  for (const text of [`${code}\`\`\`\n\n*x*`, `*x*\n\n${code}`]) {
    expect(render(text).querySelector('pre code')).not.toBeNull();
    expect(render(text).querySelector('em')?.textContent).toBe('x');
  }
  const table = `| a |\n|---|\n${'| **b** |\n'.repeat(600)}`;
  expect(render(table).querySelectorAll('strong')).toHaveLength(600);
});

test('quotes and lists of an ordinary depth nest', () => {
  expect(render(indentedList(200)).querySelectorAll('li')).toHaveLength(200);
  expect(render(`${'> '.repeat(32)}x`).querySelectorAll('blockquote')).toHaveLength(32);
});

test('tables keep the alignment of their columns', () => {
  const page = render('| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |');
  expect([...page.querySelectorAll('td')].map((cell) => cell.getAttribute('align'))).toEqual([
    'left',
    'center',
    'right',
  ]);
  expect(page.querySelector('.table')?.getAttribute('tabindex')).toBe('0');
});

test('lists begin at their number, and tasks are boxes that say their state', () => {
  expect(render('3. three\n4. four').querySelector('ol')?.getAttribute('start')).toBe('3');
  const boxes = [...render('- [x] a\n- [ ] b').querySelectorAll('input')];
  expect(boxes.map((box) => [box.type, box.checked, box.disabled])).toEqual([
    ['checkbox', true, true],
    ['checkbox', false, true],
  ]);
  expect(boxes.map((box) => box.getAttribute('aria-label'))).toEqual(['Done', 'Not done']);
});

describe('formulas', () => {
  test.each([
    ['Then \\(x^2\\) holds.', 'x^2', false],
    ['Then $a_1 * b_2 * c$ holds.', 'a_1 * b_2 * c', false],
    ['So \\[ x \\, y \\] holds.', 'x \\, y', true],
    ['$$\n\\frac{a}{b}\n$$', '\\frac{a}{b}', true],
    ['Before:\n\\[\n\\sum_i x_i\n\\]\nAfter.', '\\sum_i x_i', true],
    ['| a |\n|---|\n| $x$ |', 'x', false],
  ])('%s', async (text, tex, display) => {
    const page = await renderFully(text);
    expect(page.querySelector('annotation')?.textContent).toBe(tex);
    expect(page.querySelector('.katex-display') !== null).toBe(display);
    expect(page.querySelector('em')).toBeNull();
  });

  test.each([
    'It costs $5, and later $10.',
    'Between $5-$10 each.',
    'Set $HOME and $PATH.',
    'Use `$x$` here.',
    '```sh\necho $a$b\n```',
    'An open \\( only.',
    '$$',
  ])('%s has none', (text) => {
    const page = render(text);
    expect(page.querySelector('.formula, .katex')).toBeNull();
    if (!text.includes('`')) expect(page.textContent?.trim()).toBe(text.replace('\\(', '('));
  });

  test('invalid TeX is shown as it is', async () => {
    await renderFully('$x$');
    const page = render('$\\frac{a$');
    expect(page.querySelector('code')?.textContent).toBe('\\frac{a');
  });

  test('TeX makes no links, images or elements', async () => {
    await renderFully('$x$');
    for (const tex of [
      '\\href{javascript:alert(1)}{x}',
      '\\includegraphics{https://example.com/a.png}',
      '\\htmlData{onclick=alert(1)}{x}',
      '\\text{<img src=x onerror=alert(1)>}',
      '\\url{https://example.com}',
    ]) {
      const page = render(`$${tex}$`);
      expect(page.querySelector('a, img, [onclick], [onerror]'), tex).toBeNull();
    }
  });

  test('thousands of opened formulas are parsed at once', () => {
    for (const open of ['\\( ', '\\[ ', '$$ ', '$x ']) {
      const started = performance.now();
      render(open.repeat(3000));
      expect(performance.now() - started, open).toBeLessThan(3000);
    }
  });
});

test('code has colours, and its text stays', async () => {
  const code = 'def f(a):\n    return "<b>" # &amp;';
  const page = await renderFully(`\`\`\`python\n${code}\n\`\`\``);
  expect(page.querySelector('.hljs-keyword')?.textContent).toBe('def');
  expect(page.querySelector('pre code')?.textContent).toBe(`${code}\n`);
  expect(render('```nolanguage\na < b\n```').querySelector('pre code')?.textContent).toBe(
    'a < b\n',
  );
});

test('earlier blocks stay the same while a text grows', () => {
  const [first, second] = ['# A\n\nOne *two*.\n\n- a\n- b', ' and more\n\n```js\nlet a'];
  const before = renderBlocks(first);
  const after = renderBlocks(first + second);
  expect(before).toHaveLength(3);
  expect(after.slice(0, 2)).toEqual(before.slice(0, 2));
  expect(after).toHaveLength(4);
});

test('addresses that a text defines later are used', () => {
  const link = () => render('See [x].\n\n[x]: https://example.com/a').querySelector('a');
  expect(link()?.getAttribute('href')).toBe('https://example.com/a');
  expect(render('See [x].').querySelector('a')).toBeNull();
  expect(link()?.getAttribute('href')).toBe('https://example.com/a');
});

test.each([
  ['# KV caches, in short\n\nA **KV cache** is', 'KV caches, in short A KV cache is'],
  ['- [ ] buy `milk`\n> soon', 'buy milk soon'],
  ['See [the page](https://example.com)', 'See the page'],
  ['```js\nlet a\n```', 'let a'],
  ['2 * 3 * 4 and snake_case_name', '2 * 3 * 4 and snake_case_name'],
])('%j in a line', (text, line) => expect(plainLine(text)).toBe(line));
