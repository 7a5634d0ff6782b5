import { Lexer } from 'marked';
import { describe, expect, test, vi } from 'vitest';
import { renderMarkdown } from './markdown';

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
