// The fake over HTTP: the real HttpBackend gets from it what the fake backend gives directly.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Backend } from '../backend';
import { HttpBackend } from '../http';
import { SseParser } from '../sse';
import type { ApiKeyChange, ChatEvent, ChatRequest } from '../types';
import { FakeServer } from './server';

const address = 'http://fake';
let server: FakeServer;
let http: HttpBackend;

beforeEach(() => {
  server = new FakeServer(address);
  server.backend.pauseMs = 0;
  http = new HttpBackend(server.token);
  vi.stubGlobal('fetch', (path: string, { method, headers, body }: RequestInit) =>
    handle(path, { method, headers, body } as RequestInit),
  );
});

afterEach(() => {
  server.close();
  vi.unstubAllGlobals();
});

async function handle(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await server.handle(new Request(`${address}/${path}`, init));
  if (!response) throw new Error(`${path} is a page`);
  return response;
}

function request(change: Partial<ChatRequest> = {}): ChatRequest {
  const messages = [{ role: 'user' as const, content: 'What is 76 - 27?' }];
  return { model: 'm', messages, thinking: false, sampling: {}, tools: [], ...change };
}

async function collect(events: AsyncIterable<ChatEvent>): Promise<ChatEvent[]> {
  const all: ChatEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const tablet: ApiKeyChange = {
  name: 'Tablet',
  models: ['a/b'],
  requestsPerMinute: 5,
  concurrentRequests: 1,
  priority: 'batch',
};

const chat = (backend: Backend, change?: Partial<ChatRequest>) =>
  collect(backend.chat(request(change), new AbortController().signal));

const answers: [string, (backend: Backend) => Promise<unknown>][] = [
  ['models', (backend) => backend.models(4096)],
  ['modelSettings', (backend) => backend.modelSettings('a/b')],
  ['draftModels', (backend) => backend.draftModels('a/b')],
  ['changeModel', (backend) => backend.changeModel('a/b', { temperature: 0.5 })],
  ['whatIf', (b) => b.whatIf({ model: 'headroom-demo', contextTokens: 2048, streams: 2 })],
  ['wired', (backend) => backend.wired(18 * 2 ** 30)],
  ['changeWired', (backend) => backend.changeWired('persist', 18 * 2 ** 30)],
  ['finished', (backend) => backend.finished()],
  ['conversations', (backend) => backend.conversations()],
  ['cacheSettings', (backend) => backend.cacheSettings()],
  ['changeCache', (backend) => backend.changeCache({ minFreeBytes: 3e9 })],
  ['stored', (backend) => backend.stored()],
  ['apiKeys', (backend) => backend.apiKeys()],
  ['changeApiKey', (backend) => backend.changeApiKey('c0ffee5a1f03c29e', tablet)],
  ['removeApiKey', (backend) => backend.removeApiKey('c0ffee5a1f03c29e')],
  ['generalSettings', (backend) => backend.generalSettings()],
  ['changeGeneral', (backend) => backend.changeGeneral({ port: 12_000 })],
  ['logs', (backend) => backend.logs(1)],
  ['chats.list', (backend) => backend.chats.list('words')],
  ['plan', (backend) => backend.transfers.plan(['/a', '/b.zip'], 'move')],
  ['search', (backend) => backend.transfers.search('words', '')],
  ['suggestions', (backend) => backend.transfers.suggestions()],
  ['repository', (backend) => backend.transfers.repository('a/b')],
  ['hub', (backend) => backend.transfers.hub()],
];

test.each(answers)('%s', async (_, ask) =>
  expect(await ask(http)).toEqual(await ask(server.backend)),
);

test('actions reach the backend', async () => {
  await http.start('');
  await http.stop();
  await http.cancel('a/b');
  await http.removeModel('mlx-community/Tiny-Qwen-4bit', '/there');
  await http.pauseWatching(true);
  await http.moveCache('/elsewhere');
  expect(server.backend.calls).toEqual([
    'start ',
    'stop',
    'cancel a/b',
    'remove mlx-community/Tiny-Qwen-4bit /there',
    'pause true',
    'move /elsewhere',
  ]);
});

test('an answer over HTTP has the same events, and leaves a finished request', async () => {
  const change = { thinking: true, tools: [{ type: 'function' }] };
  const events = await chat(http, change);
  expect(events).toEqual(await chat(server.backend, change));
  expect(events.map((event) => (event.type === 'content' ? event.text : '')).join('')).toBe(
    '76 - 27 = 49.',
  );
  expect(server.backend.state).toMatchObject({ engine: { status: 'ready' }, requests: [] });
  expect(await http.finished()).toMatchObject([{ finishReason: 'stop' }, { finishReason: 'stop' }]);
  expect((await http.conversations()).conversations).toHaveLength(2);
});

test('max_tokens ends an answer', async () => {
  const events = await chat(http, { sampling: { maxTokens: 2 } });
  expect(events.slice(-4)).toMatchObject([
    { type: 'content', text: '76' },
    { type: 'content', text: ' -' },
    { type: 'finish', reason: 'length' },
    { type: 'usage', usage: { completionTokens: 2 } },
  ]);
});

test('an answer without a stream has the content of the stream', async () => {
  const body = JSON.stringify({ model: 'm', messages: request().messages });
  const response = await handle('v1/chat/completions', { method: 'POST', body });
  expect(await response.json()).toMatchObject({
    choices: [{ message: { content: '76 - 27 = 49.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 512, completion_tokens: 5 },
  });
});

test('a cancelled answer ends with an error; an answer ends when its client leaves', async () => {
  const { backend } = server;
  await expect(async () => {
    for await (const _ of http.chat(request(), new AbortController().signal))
      await http.cancel(backend.state.requests[0]?.id ?? '');
  }).rejects.toMatchObject({ code: 'cancelled' });
  for await (const _ of http.chat(request(), new AbortController().signal)) break;
  await vi.waitFor(() => expect(backend.state.requests).toEqual([]));
  expect(backend.requests.map(({ finishReason }) => finishReason)).toEqual([
    'cancelled',
    'cancelled',
  ]);
});

test('a request that differs in the middle from the previous one says where', async () => {
  for (const minute of [1, 2])
    await chat(http, { messages: [{ role: 'user', content: `It is 10:0${minute}.` }] });
  const { cause, commonText, previousText, promptText } = (await http.finished())[0]!.cacheMiss;
  expect([cause, commonText, previousText, promptText]).toEqual([
    'message_edited',
    'It is 10:0',
    '1.',
    '2.',
  ]);
});

test('refusals have the code and the status of a real server', async () => {
  await expect(new HttpBackend('').stop()).rejects.toMatchObject({ code: 'unauthorized' });
  await expect(http.conversation('none')).rejects.toMatchObject({ code: 'not_found' });
  await http.stop();
  await expect(chat(http)).rejects.toMatchObject({ code: 'not_running' });
  expect((await handle('control/state')).status).toBe(401);
  expect((await handle(`control/none?token=${server.token}`)).status).toBe(404);
  expect(await server.handle(new Request(`${address}/index.html`))).toBeNull();
});

test('the event stream begins with everything, and models follow their state', async () => {
  const response = await handle(`control/events?token=${server.token}`);
  server.finishDownload();
  const reader = response.body!.getReader();
  const parser = new SseParser();
  const events: [name: string, document: object][] = [];
  while (events.at(-1)?.[0] !== 'models')
    for (const item of parser.push((await reader.read()).value!))
      if (item.kind === 'event') events.push([item.event, JSON.parse(item.data)]);
  expect(events).toMatchObject([
    ['state', { modelsVersion: 1 }],
    ['jobs', { jobs: [] }],
    ['chats', { version: 0 }],
    ['state', { modelsVersion: 2 }],
    ['models', { changes: [{ kind: 'finished', id: 'mlx-community/Half-Here-8bit' }] }],
  ]);
  await reader.cancel();
});
