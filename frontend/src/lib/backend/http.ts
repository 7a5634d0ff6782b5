// The backend over HTTP: fetch for actions and chat, EventSource for the state.
//
// Addresses are relative to the page, so the same code runs at http://127.0.0.1:PORT/
// and behind the window's wails:// proxy. EventSource says only that something went
// wrong, so each failure is followed by one plain request that tells "nobody there"
// from "not allowed in".
import {
  HeadroomError,
  asHeadroomError,
  errorFromBody,
  unreachable,
  type Backend,
  type Watch,
  type Watcher,
} from './backend';
import { requestFields } from '../sampling';
import { readChat } from './chatstream';
import { HttpChats } from './chats';
import { HttpTransfers, type Job } from './transfers';
import type {
  CacheChange,
  CacheMove,
  CacheSettings,
  ChatEvent,
  ChatRequest,
  ConversationDetail,
  ConversationList,
  FinishedRequest,
  Model,
  ModelList,
  ModelOptions,
  ModelSettings,
  ModelsEvent,
  GeneralChange,
  GeneralSettings,
  LogLines,
  Removed,
  State,
  WhatIf,
  WhatIfQuery,
  Wired,
  WiredAction,
} from './types';

const firstRetryMs = 500;
const longestRetryMs = 8000;
/** The server speaks at least each 10 s (heartbeat) and samples each 5 s; longer silence is checked. */
const silenceMs = 15_000;
const probeTimeoutMs = 4000;
/** A browser lets 64 KiB of requests outlive a page, all together. */
const mostLastingBytes = 60_000;

export class HttpBackend implements Backend {
  readonly #token: string;
  readonly transfers = new HttpTransfers((method, path, body) => this.#send(method, path, body));
  readonly chats = new HttpChats(
    (method, path, body) => this.#send(method, path, body),
    (method, path, body) => this.#send(method, path, body, undefined, true),
  );

  constructor(token: string) {
    this.#token = token;
  }

  watch(watcher: Watcher): Watch {
    return new StateWatch(this.#token, watcher);
  }

  async start(model: string): Promise<State> {
    return normaliseState(await (await this.#post('api/engine/start', { model })).json());
  }

  async stop(): Promise<State> {
    return normaliseState(await (await this.#post('api/engine/stop')).json());
  }

  async cancel(requestId: string): Promise<void> {
    await this.#post(`api/requests/${encodeURIComponent(requestId)}/cancel`);
  }

  async *chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
    const body = {
      model: request.model,
      messages: request.messages,
      stream: true,
      stream_options: { include_usage: true },
      chat_template_kwargs: { enable_thinking: request.thinking },
      ...requestFields(request.sampling),
      ...(request.tools.length > 0 ? { tools: request.tools } : {}),
    };
    try {
      const response = await this.#post('v1/chat/completions', body, signal);
      if (!response.body) throw unreachable('the answer has no body');
      yield* readChat(response.body);
    } catch (cause) {
      if (signal.aborted) return;
      throw asHeadroomError(cause);
    }
  }

  async finished(): Promise<FinishedRequest[]> {
    return (
      ((await this.#json('GET', 'api/requests/recent')) as { requests: FinishedRequest[] })
        .requests ?? []
    );
  }

  async models(contextTokens: number): Promise<ModelList> {
    return modelsOf(
      await this.#json(
        'GET',
        contextTokens > 0 ? `api/models?context=${contextTokens}` : 'api/models',
      ),
    );
  }

  async rescanModels(): Promise<void> {
    await this.#post('api/models/rescan');
  }

  async pauseWatching(paused: boolean): Promise<void> {
    await this.#post('api/models/watching', { paused });
  }

  async removeModel(id: string, path: string): Promise<void> {
    await this.#post(`api/models/${encodeURIComponent(id)}/remove`, { path });
  }

  async revealModel(id: string, path: string): Promise<void> {
    await this.#post(`api/models/${encodeURIComponent(id)}/reveal`, { path });
  }

  async modelSettings(id: string): Promise<ModelSettings> {
    return modelSettingsOf(
      await this.#json('GET', `api/models/${encodeURIComponent(id)}/settings`),
    );
  }

  async changeModel(id: string, options: ModelOptions): Promise<ModelSettings> {
    return modelSettingsOf(
      await this.#json('PUT', `api/models/${encodeURIComponent(id)}/settings`, options),
    );
  }

  async whatIf({ model, contextTokens, streams }: WhatIfQuery): Promise<WhatIf> {
    const query = new URLSearchParams();
    if (model) query.set('model', model);
    if (contextTokens > 0) query.set('context', String(contextTokens));
    if (streams > 0) query.set('streams', String(streams));
    return (await this.#json('GET', `api/memory/what-if?${query}`)) as WhatIf;
  }

  async wired(limitBytes: number): Promise<Wired> {
    return (await this.#json(
      'GET',
      limitBytes > 0 ? `api/memory/wired?limit=${limitBytes}` : 'api/memory/wired',
    )) as Wired;
  }

  async changeWired(action: WiredAction, limitBytes: number): Promise<Wired> {
    return (await (await this.#post('api/memory/wired', { action, limitBytes })).json()) as Wired;
  }

  async conversations(): Promise<ConversationList> {
    const list = (await this.#json('GET', 'api/cache')) as ConversationList;
    return { ...list, conversations: list.conversations ?? [] };
  }

  async conversation(key: string): Promise<ConversationDetail> {
    const detail = (await this.#json(
      'GET',
      `api/cache/${encodeURIComponent(key)}`,
    )) as ConversationDetail;
    return { ...detail, entries: detail.entries ?? [] };
  }

  async pin(key: string, pinned: boolean): Promise<void> {
    await this.#post(`api/cache/${encodeURIComponent(key)}/pin`, { pinned });
  }

  async forget(key: string): Promise<Removed> {
    return (await this.#json('DELETE', `api/cache/${encodeURIComponent(key)}`)) as Removed;
  }

  async clearCache(fingerprint = ''): Promise<Removed> {
    return (await this.#json(
      'DELETE',
      fingerprint ? `api/cache?model=${encodeURIComponent(fingerprint)}` : 'api/cache',
    )) as Removed;
  }

  async cacheSettings(): Promise<CacheSettings> {
    return settingsOf(await this.#json('GET', 'api/settings/cache'));
  }

  async moveCache(dir: string): Promise<CacheMove> {
    return (await this.#json('POST', 'api/cache/move', { dir })) as CacheMove;
  }

  async changeCache(change: CacheChange): Promise<CacheSettings> {
    return settingsOf(await this.#json('PUT', 'api/settings/cache', change));
  }

  async generalSettings(): Promise<GeneralSettings> {
    return generalOf(await this.#json('GET', 'api/settings'));
  }

  async changeGeneral(change: GeneralChange): Promise<GeneralSettings> {
    return generalOf(await this.#json('PUT', 'api/settings', change));
  }

  async logs(after: number): Promise<LogLines> {
    const found = (await this.#json('GET', `api/logs?after=${after}`)) as LogLines;
    return { ...found, lines: found.lines ?? [] };
  }

  async #json(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: unknown,
  ): Promise<unknown> {
    return (await this.#send(method, path, body)).json();
  }

  #post(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    return this.#send('POST', path, body ?? {}, signal);
  }

  async #send(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
    lasting = false,
  ): Promise<Response> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const keepalive = lasting && text !== undefined && canLast(text);
    let response: Response;
    try {
      response = await fetch(path, {
        method,
        headers: {
          ...(text === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...authorization(this.#token),
        },
        ...(text === undefined ? {} : { body: text }),
        ...(keepalive ? { keepalive } : {}),
        ...(signal ? { signal } : {}),
      });
    } catch (cause) {
      if (keepalive) return this.#send(method, path, body, signal); // too much of that kind is on its way
      throw unreachable(cause);
    }
    if (!response.ok) throw await failure(response);
    return response;
  }
}

/** One subscription to /api/events that outlives the server's restarts. */
class StateWatch implements Watch {
  readonly #token: string;
  readonly #watcher: Watcher;
  #source: EventSource | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #retryMs = firstRetryMs;
  #closed = false;

  constructor(token: string, watcher: Watcher) {
    this.#token = token;
    this.#watcher = watcher;
    watcher.onConnection({ status: 'connecting' });
    this.#connect();
  }

  retry(): void {
    if (!this.#source) this.#connect();
  }

  close(): void {
    this.#closed = true;
    this.#disconnect();
  }

  #disconnect(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #connect(): void {
    if (this.#closed) return;
    this.#disconnect();
    const query = this.#token ? `?token=${encodeURIComponent(this.#token)}` : '';
    const source = new EventSource(`api/events${query}`);
    this.#source = source;
    source.addEventListener('state', (event) => this.#receive(event as MessageEvent<string>));
    source.addEventListener('models', (event) => this.#tellModels(event as MessageEvent<string>));
    source.addEventListener('jobs', (event) => this.#tellJobs(event as MessageEvent<string>));
    source.addEventListener('chats', (event) => this.#tellChats(event as MessageEvent<string>));
    source.addEventListener('error', () => {
      if (source === this.#source) void this.#diagnose();
    });
    this.#listenForSilence();
  }

  #receive(event: MessageEvent<string>): void {
    let state: State;
    try {
      state = normaliseState(JSON.parse(event.data));
    } catch {
      return; // One unreadable event; the next one is at most seconds away.
    }
    this.#retryMs = firstRetryMs;
    this.#watcher.onState(state);
    this.#watcher.onConnection({ status: 'live' });
    this.#listenForSilence();
  }

  #tellModels(event: MessageEvent<string>): void {
    try {
      this.#watcher.onModels?.((JSON.parse(event.data) as ModelsEvent).changes ?? []);
    } catch {
      return; // The list itself is asked for anyway.
    }
  }

  #tellJobs(event: MessageEvent<string>): void {
    try {
      this.#watcher.onJobs?.((JSON.parse(event.data) as { jobs: Job[] | null }).jobs ?? []);
    } catch {
      return; // One unreadable event; the next one has all of them again.
    }
  }

  #tellChats(event: MessageEvent<string>): void {
    try {
      this.#watcher.onChats?.((JSON.parse(event.data) as { version: number }).version);
    } catch {
      return; // The list is asked for with the next one.
    }
  }

  #listenForSilence(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#diagnose(), silenceMs);
  }

  /** The stream failed or fell silent: is the server gone, or are we not welcome? */
  async #diagnose(): Promise<void> {
    this.#disconnect();
    let status = 0;
    try {
      const response = await fetch('api/state', {
        headers: authorization(this.#token),
        signal: AbortSignal.timeout(probeTimeoutMs),
      });
      status = response.status;
      if (response.ok) this.#watcher.onState(normaliseState(await response.json()));
    } catch {
      status = 0;
    }
    if (this.#closed || this.#source) return;
    if (status === 401) {
      this.#watcher.onConnection({ status: 'unauthorized' });
      return;
    }
    if (status !== 200) {
      this.#watcher.onConnection({ status: 'lost', retryAt: Date.now() + this.#retryMs });
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, longestRetryMs);
  }
}

/** Whether a request with that body can outlive its page: short ones of a page that came over HTTP. */
function canLast(text: string): boolean {
  return (
    location.protocol.startsWith('http') && new TextEncoder().encode(text).length < mostLastingBytes
  );
}

function authorization(token: string): Record<string, string> {
  return token ? { 'X-Headroom-Token': token } : {};
}

async function failure(response: Response): Promise<HeadroomError> {
  const fallback = `Headroom refused the request (HTTP ${response.status}).`;
  try {
    return errorFromBody(await response.json(), fallback);
  } catch {
    return errorFromBody(null, fallback);
  }
}

function generalOf(body: unknown): GeneralSettings {
  const s = body as GeneralSettings;
  return {
    ...s,
    allowHosts: s.allowHosts ?? [],
    modelFolders: s.modelFolders ?? [],
    fixed: s.fixed ?? [],
    pending: s.pending ?? [],
  };
}

function settingsOf(raw: unknown): CacheSettings {
  const settings = raw as CacheSettings;
  return { ...settings, fixed: settings.fixed ?? [], pending: settings.pending ?? [] };
}

function modelsOf(raw: unknown): ModelList {
  const list = raw as ModelList;
  return { ...list, folders: list.folders ?? [], models: (list.models ?? []).map(modelOf) };
}

/** With null lists made empty, and a name. */
function modelOf(model: Model): Model {
  const download = model.download && {
    ...model.download,
    missing: model.download.missing ?? [],
    parts: model.download.parts ?? [],
  };
  return {
    ...model,
    name: model.name || model.id,
    parameters: model.parameters ?? 0,
    places: model.places ?? [],
    download: download ?? null,
  };
}

function modelSettingsOf(raw: unknown): ModelSettings {
  const { settings, fixed } = raw as ModelSettings;
  return { settings: settings ?? {}, fixed: fixed ?? [] };
}

/** Accepts what the server sent, with null lists made empty. Throws when it is not a state. */
export function normaliseState(raw: unknown): State {
  const state = raw as State | null;
  if (
    !state ||
    typeof state !== 'object' ||
    !state.engine ||
    !state.memory ||
    !state.cache ||
    !state.speed
  ) {
    throw new Error('api/state: expected an object with engine, memory, cache and speed');
  }
  return {
    ...state,
    endpoint: state.endpoint ?? { url: '', uiUrl: '' },
    engine: {
      ...state.engine,
      stateFormat: state.engine.stateFormat ?? '',
      error: state.engine.error ?? null,
      notice: state.engine.notice ?? null,
    },
    memory: {
      ...state.memory,
      untouchedBytes: state.memory.untouchedBytes ?? 0,
      segments: state.memory.segments ?? [],
    },
    speed: { ...state.speed, history: state.speed.history ?? [] },
    requests: state.requests ?? [],
    lastFinished: state.lastFinished ?? '',
    modelsVersion: state.modelsVersion ?? 0,
    roomBytes: state.roomBytes ?? state.memory.headroomBytes,
  };
}
