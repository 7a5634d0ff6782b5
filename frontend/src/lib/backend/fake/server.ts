// A server without sockets: requests in, responses out, over a fake backend. e2e/fake-server.mjs
// connects it to a port.
import { FakeBackend } from './backend';
import { fakeConversation, sizeOf } from './cache';
import { hubModel, fakeModels } from './models';
import { refusal } from './refusal';
import { refused, respond } from './routes';
import { fakeState, idleSpeed, withEntries } from './state';
import { complete, streamEvents } from './streams';
import type { Conversation, Model, State } from '../types';
import { newMessage } from '../../stores/conversations';

const sampleMs = 5000;
/** The model whose download finishDownload completes. */
const downloading = 'mlx-community/Half-Here-8bit';

/**
 * How many models, cached conversations and chats are added to the few that exist. The latest chat
 * has that many messages.
 */
export interface Many {
  models: number;
  conversations: number;
  chats?: number;
  messages?: number;
}

export class FakeServer {
  readonly token = crypto.randomUUID();
  readonly backend: FakeBackend;
  readonly #sampler: ReturnType<typeof setInterval>;

  /** The address is where clients reach the server, without a slash at its end. */
  constructor(address: string, many: Many = { models: 0, conversations: 0 }) {
    this.backend = freshBackend(address, many);
    this.#sampler = setInterval(() => this.backend.sample(), sampleMs);
  }

  /** Resolves to null for a path that is neither of the API nor of the endpoint. */
  async handle(request: Request): Promise<Response | null> {
    const { pathname } = new URL(request.url);
    try {
      if (pathname === '/v1/chat/completions') {
        const body = await request.json();
        if (!body.response_format) return await complete(this.backend, body);
        return await ask(this.backend, 'chat/completions', body);
      }
      if (answered.test(pathname))
        return await ask(this.backend, pathname.slice('/v1/'.length), await request.json());
      if (!pathname.startsWith('/control/')) return null;
      if (!this.#isSignedIn(request)) throw refusal('unauthorized', 'This page is not signed in.');
      if (pathname === '/control/events') return streamEvents(this.backend);
      return await respond(this.backend, request);
    } catch (cause) {
      return refused(cause);
    }
  }

  /** Completes the model that is half downloaded. */
  finishDownload(): void {
    this.backend.finishDownload(downloading);
  }

  close(): void {
    clearInterval(this.#sampler);
  }

  #isSignedIn({ headers, url }: Request): boolean {
    const fromQuery = new URL(url).searchParams.get('token');
    return [headers.get('X-Headroom-Token'), fromQuery].includes(this.token);
  }
}

/** The paths of the endpoint whose answers are whole documents. */
const answered = /^\/v1\/(decisions|embeddings|rerank)$/;

async function ask(backend: FakeBackend, path: string, body: object): Promise<Response> {
  return Response.json(await backend.ask(path, body, new AbortController().signal));
}

/** A server that has just started: the demo model is loaded, and the cache is empty. */
function freshBackend(address: string, many: Many): FakeBackend {
  const kept = manyConversations(many.conversations);
  const backend = new FakeBackend(12, freshState(address, kept));
  backend.prefillTokens = 32;
  backend.found = [...fakeModels(), ...stepModels(), ...manyModels(many.models)];
  backend.kept = kept;
  addChats(backend, many.chats ?? 0, many.messages ?? 2);
  backend.requests = [];
  backend.general.readOnly = ['port'];
  return backend;
}

function freshState(address: string, kept: Conversation[]): State {
  const state = fakeState();
  const unused = { bytes: 0, memoryBytes: 0, entries: 0, todayBytes: 0, writtenBytes: 0 };
  const cache = { ...state.cache, ...unused, hits: 0, misses: 0, secondsSaved: 0, evicted: 0 };
  return {
    ...state,
    endpoint: { url: `${address}/v1`, uiUrl: `${address}/` },
    cache: { ...withEntries(cache, sizeOf(kept)), todayBytes: 0, writtenBytes: 0, misses: 0 },
    speed: { ...state.speed, ...idleSpeed },
    requests: [],
    lastFinished: '',
  };
}

/** The models that the browser tests name; a real server gets copies of the demo model. */
function stepModels(): Model[] {
  const missing = ['model-00002-of-00002.safetensors'];
  return [
    hubModel('mlx-community/Tiny-Qwen-4bit'),
    hubModel(downloading, {
      parameters: 0,
      architecture: '',
      quantization: '',
      sizeBytes: 3e6,
      needBytes: 0,
      fits: 'no',
      state: 'downloading',
      updatedAt: Date.now(),
      error: `The model is not complete yet: 1 file is missing (${missing[0]})`,
      download: { doneBytes: 3e6, totalBytes: 9e6, missing, parts: [] },
    }),
  ];
}

function manyModels(number: number): Model[] {
  return Array.from({ length: number }, (_, i) =>
    hubModel(`org-${i % 40}/Model-${i}-4bit`, {
      sizeBytes: (1 + (i % 97)) * 1e8,
      parameters: (1 + (i % 97)) * 2e8,
    }),
  );
}

function addChats({ chats }: FakeBackend, number: number, messages: number): void {
  const now = Date.now();
  const text = (i: number) =>
    `Message ${i}: **bold**, \`code\` and a list.\n\n- one\n- two\n\n` + 'Some words. '.repeat(20);
  for (let i = 0; i < number; i++)
    chats.put(
      `chat-${i}`,
      `Chat ${i} about thing ${i % 113}`,
      now - i * 60_000,
      Array.from({ length: i === 0 ? messages : 2 }, (_, at) =>
        newMessage(at % 2 === 0 ? 'user' : 'assistant', text(at)),
      ),
    );
}

function manyConversations(number: number): Conversation[] {
  const now = Date.now();
  return Array.from({ length: number }, (_, i) =>
    fakeConversation({
      key: (0xabc000 + i).toString(16).padEnd(64, '0'),
      model: `org/model-${i % 7}`,
      fingerprint: `f${i % 7}`,
      format: 'f16',
      title: `Conversation ${i} about thing ${i % 113}`,
      tokens: 200 + ((i * 37) % 9000),
      bytes: 1e5 + ((i * 7919) % 1e6),
      sharedBytes: 0,
      createdAt: now - i * 60_000,
      lastHitAt: now - i * 30_000,
      hits: i % 9,
      secondsSaved: i % 50,
      pinned: i % 500 === 0,
    }),
  );
}
