// A parser for server-sent events that arrive as bytes, in pieces of any size.
//
// EventSource cannot send a POST and hides comments; chat answers need both, so the
// stream is read by hand. Follows the WHATWG HTML standard, section 9.2.6: lines end
// with LF, CR or CRLF, an empty line dispatches, a leading byte order mark is ignored.
// Invariant: the items do not depend on where the bytes were cut (sse.test.ts cuts
// them everywhere).

export type SseItem =
  { kind: 'event'; event: string; data: string } | { kind: 'comment'; text: string };

/** No honest line is longer; a server that never ends one must not fill the memory. */
const maxLineChars = 16 * 1024 * 1024;

export class SseParser {
  /** Holds back half characters, and drops the byte order mark. */
  #decoder = new TextDecoder('utf-8');
  #line = '';
  /** The last character was a CR: an LF that follows belongs to it. */
  #afterCr = false;
  #event = '';
  #data: string[] = [];

  /** Returns what the chunk completed. An event without its closing empty line is never returned. */
  push(chunk: Uint8Array): SseItem[] {
    let text = this.#decoder.decode(chunk, { stream: true });
    const items: SseItem[] = [];
    while (text !== '') {
      if (this.#afterCr) {
        this.#afterCr = false;
        if (text.startsWith('\n')) {
          text = text.slice(1);
          continue;
        }
      }
      const end = text.search(/[\r\n]/);
      this.#line += end < 0 ? text : text.slice(0, end);
      if (this.#line.length > maxLineChars) {
        throw new Error(`the stream has a line longer than ${maxLineChars} characters`);
      }
      if (end < 0) break;
      this.#afterCr = text[end] === '\r';
      text = text.slice(end + 1);
      this.#take(this.#line, items);
      this.#line = '';
    }
    return items;
  }

  #take(line: string, items: SseItem[]): void {
    if (line === '') {
      if (this.#data.length > 0) {
        items.push({ kind: 'event', event: this.#event || 'message', data: this.#data.join('\n') });
      }
      this.#event = '';
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (name === '') items.push({ kind: 'comment', text: value });
    else if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#event = value;
    // id and retry steer reconnection, which a chat answer does not have.
  }
}
