// Markdown of an answer to safe HTML.
//
// A model's text is untrusted: HTML in it is shown as text, images become links (the
// page loads nothing from elsewhere), and the result passes through DOMPurify.
import DOMPurify from 'dompurify';
import { Marked, type Tokens } from 'marked';
import { message } from '../strings/chat';

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
    image: ({ href, text }: Tokens.Image) =>
      `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`,
    code: ({ text, lang }: Tokens.Code) => {
      const name = escapeHtml((lang ?? '').split(/\s/)[0] ?? '');
      return (
        `<div class="code"><div class="code-head"><span>${name}</span>` +
        `<button type="button" class="code-copy" data-copy>${message.copy}</button></div>` +
        `<pre><code>${escapeHtml(text)}\n</code></pre></div>`
      );
    },
    table(token: Tokens.Table) {
      const cell = ({ tokens }: Tokens.TableCell, tag: string) =>
        `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
      const row = (cells: Tokens.TableCell[], tag: string) =>
        `<tr>${cells.map((one) => cell(one, tag)).join('')}</tr>`;
      return (
        `<div class="table"><table><thead>${row(token.header, 'th')}</thead>` +
        `<tbody>${token.rows.map((cells) => row(cells, 'td')).join('')}</tbody></table></div>`
      );
    },
  },
});

const allowed = {
  ALLOWED_TAGS: (
    'a b blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr i input li ol p pre s span ' +
    'strong sub sup table tbody td th thead tr ul'
  ).split(' '),
  ALLOWED_ATTR: ['href', 'class', 'type', 'data-copy', 'start', 'checked', 'disabled'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
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
  const clean = DOMPurify.sanitize(parse(text), allowed);
  return clean.replaceAll('<a href=', '<a target="_blank" rel="noopener noreferrer" href=');
}

function parse(text: string): string {
  if (tooDeep.test(text) || tooManyMarks(text)) return plain(text);
  try {
    return marked.parse(text, { async: false });
  } catch {
    return plain(text); // a RangeError: other kinds of nesting exhaust the stack too
  }
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
