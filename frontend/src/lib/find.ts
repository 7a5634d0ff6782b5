// Search within a conversation.
import type { Message } from './stores/conversations';

/** The texts of messages in small letters, because each key of a search reads all of them. */
const small = new WeakMap<Message, { content: string; text: string }>();

function smallText(message: Message): string {
  const { content } = message;
  let known = small.get(message);
  if (known?.content !== content)
    small.set(message, (known = { content, text: content.toLowerCase() }));
  return known!.text;
}

/** The indexes of the messages that contain a text, ignoring case; none for an empty one. */
export function messagesWith(messages: readonly Message[], text: string): number[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  const found: number[] = [];
  messages.forEach((message, index) => {
    if (smallText(message).includes(wanted)) found.push(index);
  });
  return found;
}

/** The places of a text below an element, ignoring case, up to `most`. */
export function rangesOf(root: Element, text: string, most = 500): Range[] {
  const wanted = text.trim().toLowerCase();
  const ranges: Range[] = [];
  if (wanted === '') return ranges;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const here = node.nodeValue!.toLowerCase();
    for (let at = here.indexOf(wanted); at >= 0; at = here.indexOf(wanted, at + wanted.length)) {
      if (at + wanted.length > node.nodeValue!.length || ranges.length >= most) return ranges;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** Marks ranges in the page, where the browser can. The styles are in markdown.css. */
export function mark(name: string, ranges: readonly Range[]): void {
  if (typeof Highlight === 'undefined' || !CSS.highlights) return;
  if (ranges.length === 0) CSS.highlights.delete(name);
  else CSS.highlights.set(name, new Highlight(...ranges));
}
