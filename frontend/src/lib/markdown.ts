// Markdown of an answer to safe HTML.
//
// A model's text is untrusted: HTML in it is shown as text, images become links (the
// page loads nothing from elsewhere), and the result passes through DOMPurify.
//
// Colours of code and formulas come from libraries that are loaded with the first text that needs
// them. Until then it is shown without.
import DOMPurify from 'dompurify';
import { Marked, type Token, type Tokens } from 'marked';
import { message } from '../strings/chat';
import { formulas } from './formulas';
import { Lazy } from './lazy';

interface Block {
  html: string;
  /** What it is rendered again with, once that is loaded. */
  lacks: Set<Lazy<unknown>>;
}

/** Blocks by their text. They are forgotten all at once. */
const rendered = new Map<string, Block>();
const mostRendered = 4000;
const forget = () => rendered.clear();

const colours = new Lazy(() => import('./languages'), forget);
const typesetter = new Lazy(() => import('./typeset'), forget);
/** Longer code has no colours. */
const mostColoured = 60_000;

/** Of the block that is being rendered: its formulas, and what it lacks. */
let placed: { tex: string; display: boolean }[] = [];
let lacks = new Set<Lazy<unknown>>();

/** A library, or null if the block is rendered without it for now. */
function get<T>(library: Lazy<T>): T | null {
  const module = library.get();
  if (!module) lacks.add(library);
  return module;
}

const marked = new Marked(
  formulas((tex, display) => `<span data-formula="${placed.push({ tex, display }) - 1}"></span>`),
  {
    gfm: true,
    breaks: true,
    renderer: {
      html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
      image: ({ href, text }: Tokens.Image) =>
        `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`,
      checkbox: ({ checked }: Tokens.Checkbox) =>
        `<input type="checkbox" disabled${checked ? ' checked' : ''} ` +
        `aria-label="${checked ? message.done : message.notDone}"> `,
      code: ({ text, lang }: Tokens.Code) => {
        const name = (lang ?? '').split(/\s/)[0] ?? '';
        return (
          `<div class="code"><div class="code-head"><span>${escapeHtml(name)}</span>` +
          `<button type="button" class="code-copy" data-copy>${message.copy}</button></div>` +
          `<pre tabindex="0"><code>${codeHtml(text, name)}\n</code></pre></div>`
        );
      },
      table(token: Tokens.Table) {
        const cell = ({ tokens, align }: Tokens.TableCell, tag: string) =>
          `<${tag}${align ? ` align="${align}"` : ''}>${this.parser.parseInline(tokens)}</${tag}>`;
        const row = (cells: Tokens.TableCell[], tag: string) =>
          `<tr>${cells.map((one) => cell(one, tag)).join('')}</tr>`;
        return (
          `<div class="table" role="group" aria-label="${message.table}" tabindex="0"><table>` +
          `<thead>${row(token.header, 'th')}</thead>` +
          `<tbody>${token.rows.map((cells) => row(cells, 'td')).join('')}</tbody></table></div>`
        );
      },
    },
  },
);

function codeHtml(code: string, language: string): string {
  const name = language.toLowerCase();
  const coloured = name && code.length <= mostColoured && get(colours)?.coloured(code, name);
  return coloured || escapeHtml(code);
}

const allowed = {
  ALLOWED_TAGS: (
    'a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i input li ol p pre s span ' +
    'strong sub sup table tbody td th thead tr ul'
  ).split(' '),
  ALLOWED_ATTR: [
    ...['href', 'class', 'type', 'start', 'checked', 'disabled', 'align'],
    ...['tabindex', 'role', 'aria-label', 'data-copy', 'data-formula'],
  ],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  // The pattern above is for addresses. Without this list, DOMPurify applies it to these, too.
  ADD_URI_SAFE_ATTR: 'type start checked disabled align tabindex data-formula'.split(' '),
};

// A line that opens more than 32 nested quotes and lists, or an entry of a list that is indented by
// 400 columns. marked parses them by recursion, whose cost grows with the square of the depth or
// faster. A model that loops writes such lines.
const tooDeep =
  /^(?:(?:[ \t]*(?:>|[-+*](?=\s)|\d{1,9}[.)](?=\s))){33}|[ \t]{400,}(?:[-+*]|\d{1,9}[.)])\s)/m;

// How many runs of *, _ and ~ a block of lines may have. marked looks for the end of each among all
// that follow: 6,000 in a paragraph take 9 s, 1,000 a quarter of one. Code and tables do not count.
const mostRuns = 1000;
const codeBlock = /^[ \t]*(`{3,}|~{3,})[\s\S]*?(?:^[ \t]*\1|(?![\s\S]))/gm;
const tableRow = /^[ \t]*\|.*$/gm;

function tooManyMarks(text: string): boolean {
  const prose = text.replace(codeBlock, '\n\n').replace(tableRow, '');
  return prose
    .split(/\n[ \t]*\n/)
    .some((block) => (block.match(/[*_~]+/g)?.length ?? 0) > mostRuns);
}

/** The HTML of a Markdown text. Text that cannot be parsed within bounds is shown as it is. */
export function renderMarkdown(text: string): string {
  return renderBlocks(text).join('');
}

/**
 * The HTML of each block of a Markdown text: paragraphs, lists, code. While a text grows, the HTML
 * of its earlier blocks stays the same.
 */
export function renderBlocks(text: string): string[] {
  if (tooDeep.test(text) || tooManyMarks(text)) return [clean(plain(text))];
  try {
    const tokens = marked.lexer(text);
    const links = Object.keys(tokens.links).length > 0 ? JSON.stringify(tokens.links) : '';
    return tokens
      .filter(({ type }) => type !== 'space' && type !== 'def')
      .map((token) => blockHtml(token, links));
  } catch {
    return [clean(plain(text))]; // a RangeError: other kinds of nesting exhaust the stack too
  }
}

/** links: the addresses that the text defines for its blocks. */
function blockHtml(token: Token, links: string): string {
  const key = `${token.type} ${links} ${token.raw}`;
  const before = rendered.get(key);
  if (before) {
    for (const library of before.lacks) library.get(); // tells who shows it when that has come
    return before.html;
  }
  placed = [];
  lacks = new Set();
  const html = clean(marked.parser([token])).replace(
    /<span data-formula="(\d+)"><\/span>/g,
    (_, index: string) => formulaHtml(placed[Number(index)]!),
  );
  if (rendered.size >= mostRendered) rendered.clear();
  rendered.set(key, { html, lacks });
  return html;
}

function formulaHtml({ tex, display }: { tex: string; display: boolean }): string {
  const html = get(typesetter)?.typeset(tex.trim(), display);
  const text = html ?? `<code>${escapeHtml(tex.trim())}</code>`;
  return display ? `<span class="formula" tabindex="0">${text}</span>` : text;
}

function clean(html: string): string {
  return DOMPurify.sanitize(html, allowed).replaceAll(
    '<a href=',
    '<a target="_blank" rel="noopener noreferrer" href=',
  );
}

/** The text of a Markdown text in one line: no marks, no code fences, no formulas' signs. */
export function plainLine(text: string): string {
  return text
    .replace(/^[ \t]*(`{3,}|~{3,}).*$/gm, ' ')
    .replace(/!?\[([^\]\n]*)\]\([^)\n]*\)/g, '$1')
    .replace(/^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-+*][ \t]+(?:\[[ xX]\][ \t]+)?)/gm, '')
    .replace(/(\*\*|__|~~|`)(?=\S)([^\n]*?\S)\1/g, '$2')
    .replace(/\s+/g, ' ')
    .trim();
}

function plain(text: string): string {
  return `<p>${escapeHtml(text).replaceAll('\n', '<br>')}</p>`;
}

function escapeHtml(text: string): string {
  const names: Record<string, string> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return text.replace(/[&<>"']/g, (character) => names[character] ?? character);
}
