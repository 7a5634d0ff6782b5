// Server-sent events from a fetch response, parsed by eventsource-parser.
//
// EventSource cannot send a POST request and hides comments; chat answers need both. The result
// does not depend on how the bytes are split into chunks: sse.test.ts splits them everywhere.
import { createParser } from 'eventsource-parser';
import { unreachable as t } from '../../strings/errors';

export type SseItem =
  { kind: 'event'; event: string; data: string } | { kind: 'comment'; text: string };

/** Longer than any valid line. A line without an end must not fill the memory. */
const maxLineChars = 16 * 1024 * 1024;

export class SseParser {
  /** Holds back incomplete characters and drops the byte order mark. */
  #decoder = new TextDecoder('utf-8');
  #items: SseItem[] = [];
  #parser = createParser({
    onEvent: ({ event = 'message', data }) => this.#items.push({ kind: 'event', event, data }),
    onComment: (text) => this.#items.push({ kind: 'comment', text }),
  });
  /** Whether the last chunk ended with CR: an LF at the start of the next one belongs to it. */
  #endedWithCR = false;
  /** Characters since the last line end. */
  #lineChars = 0;

  /** Returns the items that the chunk completed. */
  push(chunk: Uint8Array): SseItem[] {
    const text = this.#lineFeeds(this.#decoder.decode(chunk, { stream: true }));
    const end = text.lastIndexOf('\n');
    this.#lineChars = end < 0 ? this.#lineChars + text.length : text.length - end - 1;
    if (this.#lineChars > maxLineChars) {
      throw new Error(t.longLine(maxLineChars));
    }
    this.#parser.feed(text);
    return this.#items.splice(0);
  }

  /**
   * Turns CR and CRLF into LF. The parser would hold back a line that ends with CR at the end of
   * a chunk until the next chunk arrives.
   */
  #lineFeeds(text: string): string {
    if (text === '') return text;
    const rest = this.#endedWithCR && text.startsWith('\n') ? text.slice(1) : text;
    this.#endedWithCR = text.endsWith('\r');
    return rest.replace(/\r\n?/g, '\n');
  }
}
