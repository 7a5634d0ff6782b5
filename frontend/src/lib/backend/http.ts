// The backend over HTTP: fetch for actions and chat, EventSource for the state.
//
// Addresses are relative to the page, so the same code runs at http://127.0.0.1:PORT/ and behind
// the window's wails:// proxy. EventSource does not report why it failed, so each failure is
// followed by one plain request that distinguishes an absent server from a refused token.
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
import { filled } from './fill';
import { refused, unreachable as texts } from '../../strings/errors';
import { clientName } from '../../strings/shared';
import type { Schemas } from './schema';
import { HttpChats } from './chats';
import { HttpChecks } from './checks';
import { HttpAgents } from './agents';
import { HttpPairing } from './pairing';
import { HttpSystem } from './system';
import { HttpTrainings } from './trainings';
import { HttpTransfers } from './transfers';
import type {
  ApiKey,
  ApiKeyChange,
  CacheChange,
  CacheMove,
  CacheSettings,
  ChatEvent,
  ChatRequest,
  ConversationDetail,
  ConversationList,
  FinishedRequest,
  ModelList,
  ModelOptions,
  ModelSettings,
  NewApiKey,
  GeneralChange,
  GeneralSettings,
  LogLines,
  Removed,
  State,
  StoredChoice,
  StoredDeleted,
  StoredItem,
  WhatIf,
  WhatIfQuery,
  Wired,
  WiredAction,
} from './types';

const firstRetryMs = 500;
const longestRetryMs = 8000;
/** The server sends a heartbeat every 10 s; a longer silence is investigated. */
const silenceMs = 15_000;
const probeTimeoutMs = 4000;
/** Browsers let at most 64 KiB of keepalive requests outlive a page. */
const maxKeepaliveBytes = 60_000;

export class HttpBackend implements Backend {
  readonly #token: string;
  readonly transfers = new HttpTransfers((method, path, body) => this.#send(method, path, body));
  readonly agents = new HttpAgents((method, path, body) => this.#send(method, path, body));
  readonly pairing = new HttpPairing((method, path, body) => this.#send(method, path, body));
  readonly system = new HttpSystem((method, path, body) => this.#send(method, path, body));
  readonly trainings = new HttpTrainings((method, path, body) => this.#send(method, path, body));
  readonly checks = new HttpChecks((method, path, body) => this.#send(method, path, body));
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
    return normaliseState(await (await this.#post('control/engine/start', { model })).json());
  }

  async stop(model = ''): Promise<State> {
    const body = model ? { model } : undefined;
    return normaliseState(await (await this.#post('control/engine/stop', body)).json());
  }

  async cancel(requestId: string): Promise<void> {
    await this.#post(`control/requests/${encodeURIComponent(requestId)}/cancel`);
  }

  async ask(path: string, body: object, signal: AbortSignal): Promise<unknown> {
    const response = await this.#post(`v1/${path}`, body, signal);
    try {
      return await response.json();
    } catch (cause) {
      throw unreachable(cause);
    }
  }

  async *chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
    const body = {
      model: request.model,
      messages: request.messages,
      stream: true,
      stream_options: { include_usage: true, include_drafts: true },
      chat_template_kwargs: { enable_thinking: request.thinking },
      ...requestFields(request.sampling),
      ...(request.tools.length > 0 ? { tools: request.tools } : {}),
      ...(request.private ? { cache: 'memory' } : {}),
    };
    try {
      const response = await this.#post('v1/chat/completions', body, signal);
      if (!response.body) throw unreachable(texts.noBody);
      yield* readChat(response.body);
    } catch (cause) {
      if (signal.aborted) return;
      throw asHeadroomError(cause);
    }
  }

  async finished(): Promise<FinishedRequest[]> {
    return (await this.#json('HostFinishedList', 'GET', 'control/requests/recent')).requests;
  }

  async models(contextTokens: number): Promise<ModelList> {
    const query = contextTokens > 0 ? `?context=${contextTokens}` : '';
    const list = await this.#json('HostModelList', 'GET', `control/models${query}`);
    return {
      ...list,
      models: list.models.map((model) => ({ ...model, name: model.name || model.id })),
    };
  }

  async rescanModels(): Promise<void> {
    await this.#post('control/models/rescan');
  }

  async pauseWatching(paused: boolean): Promise<void> {
    await this.#post('control/models/watching', { paused });
  }

  async removeModel(id: string, path: string): Promise<void> {
    await this.#post(`control/models/${encodeURIComponent(id)}/remove`, { path });
  }

  async revealModel(id: string, path: string): Promise<void> {
    await this.#post(`control/models/${encodeURIComponent(id)}/reveal`, { path });
  }

  async modelSettings(id: string): Promise<ModelSettings> {
    const path = `control/models/${encodeURIComponent(id)}/settings`;
    return (await this.#json('ModelSettings', 'GET', path)) as ModelSettings;
  }

  async draftModels(id: string): Promise<string[]> {
    const path = `control/models/${encodeURIComponent(id)}/draft-models`;
    return (await this.#json('DraftModels', 'GET', path)).models;
  }

  async changeModel(id: string, options: ModelOptions): Promise<ModelSettings> {
    const path = `control/models/${encodeURIComponent(id)}/settings`;
    return (await this.#json('ModelSettings', 'PUT', path, options)) as ModelSettings;
  }

  async whatIf({ model, contextTokens, streams }: WhatIfQuery): Promise<WhatIf> {
    const query = new URLSearchParams();
    if (model) query.set('model', model);
    if (contextTokens > 0) query.set('context', String(contextTokens));
    if (streams > 0) query.set('streams', String(streams));
    return this.#json('HostWhatIf', 'GET', `control/memory/what-if?${query}`);
  }

  async wired(limitBytes: number): Promise<Wired> {
    const query = limitBytes > 0 ? `?limit=${limitBytes}` : '';
    return this.#json('WiredStatus', 'GET', `control/memory/wired${query}`);
  }

  async changeWired(action: WiredAction, limitBytes: number): Promise<Wired> {
    return this.#json('WiredStatus', 'POST', 'control/memory/wired', { action, limitBytes });
  }

  async conversations(): Promise<ConversationList> {
    return this.#json('CacheList', 'GET', 'control/cache');
  }

  async conversation(key: string): Promise<ConversationDetail> {
    return this.#json('CacheDetail', 'GET', `control/cache/${encodeURIComponent(key)}`);
  }

  async pin(key: string, pinned: boolean): Promise<void> {
    await this.#post(`control/cache/${encodeURIComponent(key)}/pin`, { pinned });
  }

  async forget(key: string): Promise<Removed> {
    return this.#json('CacheRemoved', 'DELETE', `control/cache/${encodeURIComponent(key)}`);
  }

  async clearCache(fingerprint = ''): Promise<Removed> {
    const query = fingerprint ? `?model=${encodeURIComponent(fingerprint)}` : '';
    return this.#json('CacheRemoved', 'DELETE', `control/cache${query}`);
  }

  async stored(): Promise<StoredItem[]> {
    return (await this.#json('StoredList', 'GET', 'control/stored')).items;
  }

  async deleteStored(choice: StoredChoice): Promise<StoredDeleted> {
    return this.#json('StoredDeleted', 'POST', 'control/stored/delete', {
      everything: true,
      ...choice,
    });
  }

  async cacheSettings(): Promise<CacheSettings> {
    return this.#json('CacheSettings', 'GET', 'control/settings/cache');
  }

  async moveCache(dir: string): Promise<CacheMove> {
    return this.#json('CacheMove', 'POST', 'control/cache/move', { dir });
  }

  async changeCache(change: CacheChange): Promise<CacheSettings> {
    return this.#json('CacheSettings', 'PUT', 'control/settings/cache', change);
  }

  async apiKeys(): Promise<ApiKey[]> {
    return (await this.#json('APIKeyList', 'GET', 'control/keys')).keys;
  }

  async addApiKey(change: ApiKeyChange): Promise<NewApiKey> {
    return this.#json('NewAPIKey', 'POST', 'control/keys', change);
  }

  async changeApiKey(id: string, change: ApiKeyChange): Promise<ApiKey[]> {
    const path = `control/keys/${encodeURIComponent(id)}`;
    return (await this.#json('APIKeyList', 'PUT', path, change)).keys;
  }

  async removeApiKey(id: string): Promise<ApiKey[]> {
    return (await this.#json('APIKeyList', 'DELETE', `control/keys/${encodeURIComponent(id)}`))
      .keys;
  }

  async generalSettings(): Promise<GeneralSettings> {
    return this.#json('GeneralSettings', 'GET', 'control/settings');
  }

  async changeGeneral(change: GeneralChange): Promise<GeneralSettings> {
    return this.#json('GeneralSettings', 'PUT', 'control/settings', change);
  }

  async logs(after: number): Promise<LogLines> {
    return this.#json('LogLines', 'GET', `control/logs?after=${after}`);
  }

  async #json<Name extends keyof Schemas>(
    name: Name,
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: unknown,
  ): Promise<Schemas[Name]> {
    return filled(name, await (await this.#send(method, path, body)).json());
  }

  #post(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    return this.#send('POST', path, body ?? {}, signal);
  }

  async #send(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
    keepalive = false,
  ): Promise<Response> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const outlives = keepalive && text !== undefined && canOutlivePage(text);
    let response: Response;
    try {
      response = await fetch(path, {
        method,
        headers: {
          ...(text === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...authorization(this.#token),
          'X-Title': clientName, // the name of this client in the list of requests
        },
        ...(text === undefined ? {} : { body: text }),
        ...(outlives ? { keepalive } : {}),
        ...(signal ? { signal } : {}),
      });
    } catch (cause) {
      // The quota for keepalive requests is used up.
      if (outlives) return this.#send(method, path, body, signal);
      throw unreachable(cause);
    }
    if (!response.ok) throw await failure(response);
    return response;
  }
}

/** One subscription to /control/events that survives restarts of the server. */
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
    const source = new EventSource(`control/events${query}`);
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
      this.#watcher.onModels?.(filled('ModelsEvent', JSON.parse(event.data)).changes);
    } catch {
      return; // The list is requested anyway.
    }
  }

  #tellJobs(event: MessageEvent<string>): void {
    try {
      this.#watcher.onJobs?.(filled('JobList', JSON.parse(event.data)).jobs);
    } catch {
      return; // One unreadable event; the next one carries all jobs again.
    }
  }

  #tellChats(event: MessageEvent<string>): void {
    try {
      this.#watcher.onChats?.(filled('ChatsEvent', JSON.parse(event.data)).version);
    } catch {
      return; // The next event asks for the list again.
    }
  }

  #listenForSilence(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#diagnose(), silenceMs);
  }

  /** Finds out why the stream failed or fell silent: the server is gone, or refuses the token. */
  async #diagnose(): Promise<void> {
    this.#disconnect();
    let status = 0;
    try {
      const response = await fetch('control/state', {
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

/** Whether a keepalive request can carry that body. It must be short, and only HTTP allows it. */
function canOutlivePage(text: string): boolean {
  return (
    location.protocol.startsWith('http') &&
    new TextEncoder().encode(text).length < maxKeepaliveBytes
  );
}

function authorization(token: string): Record<string, string> {
  return token ? { 'X-Headroom-Token': token } : {};
}

async function failure(response: Response): Promise<HeadroomError> {
  const fallback = refused.message(response.status);
  try {
    return errorFromBody(await response.json(), fallback);
  } catch {
    return errorFromBody(null, fallback);
  }
}

/** Checks that the document is a state, and makes its null lists empty. Throws otherwise. */
export function normaliseState(raw: unknown): State {
  const state = raw as State | null;
  if (!state?.engine || !state.memory || !state.cache || !state.speed) {
    throw new Error(texts.noState);
  }
  return filled('HostState', state);
}
