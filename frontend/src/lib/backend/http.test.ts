import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Connection } from './backend';
import { fakeState } from './fake';
import { HttpBackend, normaliseState } from './http';
import type { State } from './types';

/** Stands in for the browser's EventSource; jsdom has none. */
class FakeEventSource extends EventTarget {
  static opened: FakeEventSource[] = [];
  closed = false;

  constructor(readonly url: string) {
    super();
    FakeEventSource.opened.push(this);
  }

  close() {
    this.closed = true;
  }

  send(state: State) {
    this.dispatchEvent(new MessageEvent('state', { data: JSON.stringify(state) }));
  }

  fail() {
    this.dispatchEvent(new Event('error'));
  }

  static get last(): FakeEventSource {
    return FakeEventSource.opened.at(-1)!;
  }
}

let answer: () => Promise<Response>;
let requests: { path: string; init: RequestInit }[];

beforeEach(() => {
  vi.useFakeTimers();
  FakeEventSource.opened = [];
  requests = [];
  answer = () => Promise.reject(new TypeError('Failed to fetch'));
  vi.stubGlobal('EventSource', FakeEventSource);
  vi.stubGlobal('fetch', (path: string, init: RequestInit) => {
    requests.push({ path, init });
    return answer();
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const reply = (status: number, body: unknown) => () =>
  Promise.resolve(new Response(status === 204 ? null : JSON.stringify(body), { status }));

function watching(token = 'T') {
  const states: State[] = [];
  const connections: Connection[] = [];
  const watch = new HttpBackend(token).watch({
    onState: (state) => states.push(state),
    onConnection: (connection) => connections.push(connection),
  });
  return { watch, states, connections, last: () => connections.at(-1)! };
}

const settle = () => vi.advanceTimersByTimeAsync(0);

test('connects with the token, relative to the page, and reports states', () => {
  const { states, connections } = watching('a b');
  expect(FakeEventSource.last.url).toBe('control/events?token=a%20b');
  FakeEventSource.last.send(fakeState());
  expect(states).toHaveLength(1);
  expect(connections.map((connection) => connection.status)).toEqual(['connecting', 'live']);
});

test('without a token the address carries none', () => {
  watching('');
  expect(FakeEventSource.last.url).toBe('control/events');
});

test('a server that is gone: lost, ever longer waits, then live again', async () => {
  const { last } = watching();
  FakeEventSource.last.send(fakeState());
  const waits: number[] = [];
  for (let round = 0; round < 7; round++) {
    FakeEventSource.last.fail();
    await settle();
    const connection = last();
    if (connection.status !== 'lost') throw new Error(`expected lost, got ${connection.status}`);
    waits.push(connection.retryAt - Date.now());
    await vi.advanceTimersByTimeAsync(waits.at(-1)!);
  }
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 8000, 8000]);
  expect(FakeEventSource.opened.filter((source) => !source.closed)).toHaveLength(1);
  FakeEventSource.last.send(fakeState());
  expect(last().status).toBe('live');
});

test('a refused token: unauthorized, and no further attempts', async () => {
  const { last } = watching();
  answer = reply(401, { error: { code: 'unauthorized', message: 'no' } });
  FakeEventSource.last.fail();
  await settle();
  expect(last().status).toBe('unauthorized');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(FakeEventSource.opened).toHaveLength(1);
});

test('retry reconnects at once', async () => {
  const { watch } = watching();
  FakeEventSource.last.fail();
  await settle();
  watch.retry();
  expect(FakeEventSource.opened).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(FakeEventSource.opened).toHaveLength(2);
});

test('a silent connection is checked, and is lost when the server does not answer', async () => {
  const { last } = watching();
  FakeEventSource.last.send(fakeState());
  await vi.advanceTimersByTimeAsync(15_000);
  expect(last().status).toBe('lost');
});

test('a closed watch does not reconnect', async () => {
  const { watch } = watching();
  FakeEventSource.last.fail();
  watch.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(FakeEventSource.opened).toHaveLength(1);
});

test('actions carry the token and return the new state', async () => {
  answer = reply(202, fakeState());
  const state = await new HttpBackend('T').start('headroom-demo');
  expect(state.engine.model).toBe('headroom-demo');
  expect(requests).toMatchObject([
    {
      path: 'control/engine/start',
      init: {
        method: 'POST',
        body: '{"model":"headroom-demo"}',
        headers: { 'X-Headroom-Token': 'T' },
      },
    },
  ]);
});

test('a request id is one path element, whatever it holds', async () => {
  answer = reply(204, null);
  await new HttpBackend('').cancel('a/../b?c');
  expect(requests[0]?.path).toBe('control/requests/a%2F..%2Fb%3Fc/cancel');
});

test.each([
  [
    'the control API',
    409,
    { error: { code: 'does_not_fit', message: 'M', why: 'W', fix: 'F' } },
    { code: 'does_not_fit', message: 'M', why: 'W', fix: 'F' },
  ],
  [
    'OpenAI',
    400,
    { error: { type: 'invalid_request_error', message: 'M' } },
    { code: 'invalid_request_error', message: 'M', why: '', fix: '' },
  ],
  [
    'a plain string',
    502,
    'Bad gateway',
    { code: 'unknown', message: 'Headroom refused the request (HTTP 502).' },
  ],
])('errors in the form of %s', async (_, status, body, error) => {
  answer = reply(status as number, body);
  await expect(new HttpBackend('').stop()).rejects.toMatchObject(error);
});

test('a server that cannot be reached gives the error unreachable', async () => {
  await expect(new HttpBackend('').stop()).rejects.toMatchObject({ code: 'unreachable' });
});

test('chat asks for a stream with usage, and passes the thinking switch on', async () => {
  answer = () =>
    Promise.resolve(
      new Response('data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'),
    );
  const events = [];
  const request = {
    model: 'm',
    messages: [{ role: 'user' as const, content: 'q' }],
    thinking: true,
    sampling: { temperature: 0, topK: 20 },
    tools: [{ type: 'function' }],
  };
  for await (const event of new HttpBackend('T').chat(request, new AbortController().signal))
    events.push(event);
  expect(events).toEqual([{ type: 'content', text: 'a' }]);
  expect(JSON.parse(String(requests[0]?.init.body))).toEqual({
    model: 'm',
    messages: [{ role: 'user', content: 'q' }],
    stream: true,
    stream_options: { include_usage: true, include_drafts: true },
    chat_template_kwargs: { enable_thinking: true },
    temperature: 0,
    top_k: 20,
    tools: [{ type: 'function' }],
  });
});

test('an aborted chat ends without an error', async () => {
  const abort = new AbortController();
  answer = () => {
    abort.abort();
    return Promise.reject(new DOMException('aborted', 'AbortError'));
  };
  const request = { model: 'm', messages: [], thinking: false, sampling: {}, tools: [] };
  for await (const event of new HttpBackend('').chat(request, abort.signal))
    throw new Error(`unexpected ${event.type}`);
});

test('normaliseState: Go writes an empty list as null', () => {
  const raw = { ...fakeState(), requests: null };
  expect(normaliseState(raw)).toMatchObject({ requests: [] });
  expect(() => normaliseState({})).toThrow(/expected an object/);
  expect(() => normaliseState(null)).toThrow();
});

test('a short write uses keepalive, and is sent again when the browser refuses it', async () => {
  const summary = { id: 'a', revision: 1 };
  const backend = new HttpBackend('T');
  const change = (content: string) => ({
    revision: 0,
    title: '',
    updatedAt: 1,
    from: 0,
    messages: [{ content }],
  });
  answer = reply(200, summary);
  expect(await backend.chats.write('a', change('short'))).toEqual(summary);
  await backend.chats.write('a', change('é'.repeat(40_000)));
  expect(requests.map(({ init }) => init.keepalive)).toEqual([true, undefined]);
  answer = () =>
    requests.at(-1)!.init.keepalive
      ? Promise.reject(new TypeError('quota'))
      : reply(200, summary)();
  expect(await backend.chats.write('a', change('short'))).toEqual(summary);
});
