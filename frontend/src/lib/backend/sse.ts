// Server-sent events from a fetch response, parsed by eventsource-parser.
//
// EventSource cannot send a POST and hides comments; chat answers need both. The items do not depend
// on where the bytes were cut: sse.test.ts cuts them everywhere.
import { createParser } from 'eventsource-parser';

export type SseItem =
  { kind: 'event'; event: string; data: string } | { kind: 'comment'; text: string };

/** No real line is longer; a server that never ends one must not fill the memory. */
const maxLineChars = 16 * 1024 * 1024;

export class SseParser {
  /** Holds back incomplete characters, and drops the byte order mark. */
  #decoder = new TextDecoder('utf-8');
  #items: SseItem[] = [];
  #parser = createParser({
    onEvent: ({ event = 'message', data }) => this.#items.push({ kind: 'event', event, data }),
    onComment: (text) => this.#items.push({ kind: 'comment', text }),
  });
  /** Characters since the last line end. */
  #lineChars = 0;

  /** Returns the items that the chunk completed. */
  push(chunk: Uint8Array): SseItem[] {
    const text = this.#decoder.decode(chunk, { stream: true });
    const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r'));
    this.#lineChars = end < 0 ? this.#lineChars + text.length : text.length - end - 1;
    if (this.#lineChars > maxLineChars) {
      throw new Error(`the stream has a line longer than ${maxLineChars} characters`);
    }
    this.#parser.feed(text);
    return this.#items.splice(0);
  }
}
