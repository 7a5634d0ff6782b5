// What a screen reader says for a part of a page: its text, without buttons and hidden pictures.

/** Elements that end a word: without a space, a heading would run into its text. */
const blocks =
  'p, li, h1, h2, h3, h4, h5, h6, pre, blockquote, td, th, tr, br, hr, dt, dd, div, summary';
const unspoken = 'button, [aria-hidden="true"], svg, style';

export function spokenText(element: Element): string {
  const copy = element.cloneNode(true) as Element;
  for (const one of copy.querySelectorAll(unspoken)) one.remove();
  for (const one of copy.querySelectorAll(blocks)) one.after(' ');
  return (copy.textContent ?? '').replace(/\s+/g, ' ').trim();
}
