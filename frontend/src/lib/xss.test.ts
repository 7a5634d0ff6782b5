// Attacks on the page by a model's text. Each is rendered as Markdown, and its HTML goes into an
// element as Markdown.svelte does it.
//
// XSS_CORPUS=FILE also runs a corpus: a module whose default export is a list of {payload}, as
// DOMPurify's test/fixtures/expect.mjs.
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test, vi } from 'vitest';
import { renderMarkdown } from './markdown';

// Formulas and colours, too, are attacked.
beforeAll(
  () =>
    vi.waitFor(() => {
      expect(renderMarkdown('$x$')).toContain('katex');
      expect(renderMarkdown('```js\nlet a\n```')).toContain('hljs');
    }, 100_000),
  110_000,
);

/** Elements and attributes that only this page writes, or that cannot act. */
const elements = new Set(
  (
    'a blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr input li ol p pre s span strong ' +
    'table tbody td th thead tr ul'
  ).split(' '),
);
const attributes =
  /^(align|aria-label|checked|class|data-copy|disabled|href|rel|role|start|tabindex|target|type)$/;
/** KaTeX writes HTML, MathML and SVG of many kinds; none of these. */
const notInFormulas =
  /^(a|animate|audio|embed|foreignobject|form|i?frame|image|img|input|link|meta|object|script|set|style|use|video)$/i;
const notOnFormulas = /^(on.*|src.*|.*href|id|name|action|data-.*)$/i;

function check(text: string) {
  const page = document.createElement('div');
  page.innerHTML = renderMarkdown(text);
  for (const element of page.querySelectorAll('*')) {
    const formula = element.closest('.katex') !== null;
    if (formula) expect(element.localName, text).not.toMatch(notInFormulas);
    else expect(elements.has(element.localName), `<${element.localName}> from ${text}`).toBe(true);
    for (const { name, value } of element.attributes) {
      if (formula) expect(name, text).not.toMatch(notOnFormulas);
      else expect(name, text).toMatch(attributes);
      if (name === 'href') expect(value, text).toMatch(/^(https?|mailto):/i);
      if (name === 'style') expect(value, text).not.toMatch(/url|position: *fixed|expression/i);
    }
    if (element.localName === 'input') expect((element as HTMLInputElement).type).toBe('checkbox');
    if (element.localName === 'button') expect(element.className).toBe('code-copy');
  }
}

const html = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '<svg onload=alert(1)><animate onbegin=alert(1) attributeName=x></svg>',
  '<math><mtext><table><mglyph><style><img src onerror=alert(1)></style></mglyph></table></mtext>',
  '<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '<template><img src=x onerror=alert(1)></template>',
  '<a href="java\tscript:alert(1)">x</a>',
  '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
  '<object data="data:text/html,<script>alert(1)</script>"></object>',
  '<base href="https://example.com/"><link rel=stylesheet href=//example.com/a.css>',
  '<meta http-equiv=refresh content="0;url=https://example.com">',
  '<input autofocus onfocus=alert(1)>',
  '<form action="https://example.com"><button>Sign in</button></form>',
  '<div style="background:url(https://example.com/a.png)">x</div>',
  '<button data-copy class="code-copy">Copy</button>',
  '<span data-formula="0"></span>',
  '<img name=cookie><form id=attributes><input name=parentNode></form>',
  '<!--><img src=x onerror=alert(1)>-->',
  '<![CDATA[<img src=x onerror=alert(1)>]]>',
];
const markdown = [
  '[x](javascript:alert(1))',
  '[x](JaVaScRiPt:alert(1))',
  '[x](&#106;avascript:alert(1))',
  '[x](&#x6A&#x61&#x76&#x61&#x73cript:alert(1))',
  '[x](java&Tab;script:alert(1))',
  '[x](data:text/html;base64,PHNjcmlwdD4=)',
  '[x](vbscript:alert(1))',
  '[x](//example.com)',
  '[x](file:///etc/passwd)',
  '[x](control/stored)',
  '<javascript:alert(1)>',
  '![x](data:image/svg+xml;base64,PHN2Zz4=)',
  '![x"onerror="alert(1)](https://example.com/a.png)',
  '[x](https://example.com "a\\" onmouseover=\\"alert(1)")',
  '[x]: javascript:alert(1)\n\n[x]',
  '```"onmouseover="alert(1)\ncode\n```',
  '```js\n</code></pre><img src=x onerror=alert(1)>\n```',
  '```html\n<script>alert(1)</script>\n```',
  '`<img src=x onerror=alert(1)>`',
  '| <img src=x onerror=alert(1)> |\n|---|\n| <svg onload=alert(1)> |',
  '$<img src=x onerror=alert(1)>$',
  '$\\href{javascript:alert(1)}{x}$',
  '$$\\htmlStyle{position:fixed}{x}$$',
  '# <svg/onload=alert(1)>',
  '- [x] <img src=x onerror=alert(1)>',
  '> <details open ontoggle=alert(1)>',
];
test.each([...html, ...markdown])('%s', (text) => {
  check(text);
  check(`*a* ${text} **b**`);
  check(`- a\n\n  ${text}\n\n1. b`);
});

test('a corpus, if one is named', () => {
  const file = process.env.XSS_CORPUS;
  if (!file) return;
  const source = readFileSync(file, 'utf8').replace(/^export default/, 'return');
  const corpus = new Function(source)() as { payload: string }[];
  expect(corpus.length).toBeGreaterThan(100);
  for (const { payload } of corpus) {
    check(payload);
    check(`text ${payload.replaceAll('\n', ' ')} text`);
  }
});
