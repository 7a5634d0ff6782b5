import { describe, expect, test } from 'vitest';
import { SseParser, type SseItem } from './sse';

const encode = (text: string) => new TextEncoder().encode(text);

function parse(...chunks: Uint8Array[]): SseItem[] {
  const parser = new SseParser();
  return chunks.flatMap((chunk) => parser.push(chunk));
}

const event = (data: string, name = 'message'): SseItem => ({ kind: 'event', event: name, data });
const comment = (text: string): SseItem => ({ kind: 'comment', text });

describe('the lines of the standard', () => {
  test.each<[string, string, SseItem[]]>([
    ['one event', 'data: a\n\n', [event('a')]],
    ['no space after the colon', 'data:a\n\n', [event('a')]],
    ['only the first space is dropped', 'data:  a\n\n', [event(' a')]],
    ['several data lines are joined', 'data: a\ndata: b\ndata\n\n', [event('a\nb\n')]],
    [
      'the name of an event does not apply to the next one',
      'event: state\ndata: a\n\ndata: b\n\n',
      [event('a', 'state'), event('b')],
    ],
    ['an event without data is not dispatched', 'event: state\n\n', []],
    ['a comment comes at once', ': keepalive 512/2048\n', [comment('keepalive 512/2048')]],
    ['a comment within an event', 'data: a\n: hm\ndata: b\n\n', [comment('hm'), event('a\nb')]],
    ['unknown fields are ignored', 'id: 7\nretry: 10\nfoo: bar\ndata: a\n\n', [event('a')]],
    ['CR alone ends a line', 'data: a\r\rdata: b\r\r', [event('a'), event('b')]],
    ['CRLF ends one line, not two', 'data: a\r\ndata: b\r\n\r\n', [event('a\nb')]],
    ['a byte order mark at the start', '\ufeffdata: a\n\n', [event('a')]],
    ['an unfinished event is not dispatched', 'data: a\n\ndata: b\n', [event('a')]],
    ['a colon in the value', 'data: {"a":1}\n\n', [event('{"a":1}')]],
  ])('%s', (_, text, items) => expect(parse(encode(text))).toEqual(items));
});

// Everything at once: all line ends, a comment, characters of one to four bytes.
const everything =
  '\ufeff: keepalive 1/2\r\nevent: état\rdata: naïve 水 🎈\r\ndata: second\n\n' +
  'data: {"choices":[]}\r\r: bye\ndata: [DONE]\r\n\r\n';

describe('the items do not depend on where the bytes are cut', () => {
  const bytes = encode(everything);
  const whole = parse(bytes);

  test('the whole', () => {
    expect(whole).toEqual([
      comment('keepalive 1/2'),
      event('naïve 水 🎈\nsecond', 'état'),
      event('{"choices":[]}'),
      comment('bye'),
      event('[DONE]'),
    ]);
  });

  test('cut once, anywhere', () => {
    for (let at = 0; at <= bytes.length; at++) {
      expect(parse(bytes.slice(0, at), bytes.slice(at)), `cut at byte ${at}`).toEqual(whole);
    }
  });

  test('cut twice, anywhere', () => {
    for (let a = 0; a <= bytes.length; a++) {
      for (let b = a; b <= bytes.length; b++) {
        expect(
          parse(bytes.slice(0, a), bytes.slice(a, b), bytes.slice(b)),
          `cut at ${a} and ${b}`,
        ).toEqual(whole);
      }
    }
  });

  test('byte by byte, with empty chunks between', () => {
    const chunks = [...bytes].flatMap((byte) => [Uint8Array.of(byte), new Uint8Array()]);
    expect(parse(...chunks)).toEqual(whole);
  });
});

test('random bytes never throw, and the items do not depend on the cut', () => {
  // A fixed linear congruential generator: the same inputs on every run.
  let seed = 1;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  const alphabet = [...encode('data: event:\r\n\n\r :x\u00e9')];
  for (let round = 0; round < 300; round++) {
    const bytes = Uint8Array.from({ length: random(60) }, () =>
      random(5) === 0 ? random(256) : alphabet[random(alphabet.length)]!,
    );
    const at = random(bytes.length + 1);
    expect(parse(bytes.slice(0, at), bytes.slice(at))).toEqual(parse(bytes));
  }
});

test('a line without end is refused before it fills the memory', () => {
  const parser = new SseParser();
  const chunk = new Uint8Array(4 * 1024 * 1024).fill(0x61);
  expect(() => {
    for (let i = 0; i < 8; i++) parser.push(chunk);
  }).toThrow(/longer than/);
});
