// A backend without a server: it plays the engine, the cache, the models and the settings.
//
// As a real one does, it reports every change of the state, and stops an answer that is aborted or
// cancelled. Time passes only through pauseMs, which most tests set to 0.
import type { Backend, Connection, HeadroomError, Watch, Watcher } from '../backend';
import type {
  CacheChange,
  CacheMove,
  CacheSettings,
  ChatEvent,
  ChatRequest,
  Conversation,
  ConversationDetail,
  ConversationList,
  Engine,
  FinishedRequest,
  ApiKey,
  ApiKeyChange,
  GeneralChange,
  GeneralSettings,
  LogLine,
  LogLines,
  Model,
  ModelChange,
  ModelList,
  ModelOptions,
  ModelSettings,
  NewApiKey,
  Removed,
  RequestInFlight,
  State,
  StoredChoice,
  StoredDeleted,
  StoredItem,
  WhatIf,
  WhatIfQuery,
  Wired,
  WiredAction,
} from '../types';
import { answerTo, cachedTokens, promptTokensOf, questionOf } from './answer';
import {
  cachedConversation,
  detailOf,
  fakeConversations,
  fakeFinished,
  finishedRequest,
  sizeOf,
} from './cache';
import { FakeChats } from './chats';
import { FakeChecks } from './checks';
import { FakeAgents } from './agents';
import { FakePairing } from './pairing';
import { FakeSystem } from './system';
import { endpointAnswer, type EndpointBody } from './endpoint';
import { fakeWhatIf, fakeWired } from './memory';
import { completed, fakeModels, fakeNeed } from './models';
import { refusal } from './refusal';
import { defaultPort, fakeCacheSettings, fakeGeneral, fakeKeys, fakeLog, newKey } from './settings';
import {
  fakeMemory,
  fakeState,
  idleSpeed,
  runningSpeed,
  withEntries,
  withLimits,
  withSample,
  withoutEntries,
} from './state';
import { FakeTrainings } from './trainings';
import { FakeTransfers } from './transfers';

const demo = 'headroom-demo';
const needBytesPerToken = 10_000;

export class FakeBackend implements Backend {
  state: State;
  /** The pause between two steps of loading, prefill and decode. */
  pauseMs: number;
  /** The prompt tokens of one step of prefill. */
  prefillTokens = 128;
  /** The models that are loaded besides the one in front. */
  beside: Engine[] = [];
  /** The model's process does not answer. wake ends it. */
  silent = false;
  /** The conversations whose removal waits for the model. */
  readonly #leaving: Conversation[] = [];
  /** Thrown by the next action, once. */
  nextError: HeadroomError | null = null;
  /** The actions, in order. */
  readonly calls: string[] = [];
  /** The chat requests, in order. */
  readonly asked: ChatRequest[] = [];
  /** What deleteStored cannot delete. */
  leaves: string[] = [];
  /** Files and bytes of the models in Headroom’s own folders. */
  storedModels: [number, number] = [12, 18.6e9];
  /** The contexts for which models were listed. */
  readonly lists: number[] = [];
  found: Model[] = fakeModels();
  options: Record<string, ModelSettings> = {};
  /** By model: those that can draft for it. */
  drafters: Record<string, string[]> = {};
  limit: Wired = fakeWired(0);
  kept: Conversation[] = fakeConversations();
  requests: FinishedRequest[] = fakeFinished();
  general: GeneralSettings = fakeGeneral();
  named: ApiKey[] = fakeKeys();
  log: LogLine[] = fakeLog();
  settings: CacheSettings = fakeCacheSettings();
  readonly transfers = new FakeTransfers(
    this.calls,
    () => this.#failOnce(),
    (jobs) => this.#tell((watcher) => watcher.onJobs?.(jobs)),
  );
  readonly trainings = new FakeTrainings(this.calls, this.transfers);
  readonly chats = new FakeChats((version) => this.#tell((watcher) => watcher.onChats?.(version)));
  readonly system = new FakeSystem(this.calls);
  readonly agents = new FakeAgents(this.calls);
  readonly pairing = new FakePairing(this.calls);
  readonly checks = new FakeChecks(
    () => this.#pause(),
    (call) => this.#act(call),
    (running) =>
      this.set((state) => {
        state.checking = running;
        state.checksVersion++;
      }),
  );
  #watchers = new Set<Watcher>();
  #watchingPaused = false;
  /** The ids of the chat requests that run. */
  #running = new Set<string>();
  /** The number of the last chat request; fakeState has the first two. */
  #served = 2;
  #lastQuestion = '';

  constructor(pauseMs = 0, state = fakeState()) {
    this.pauseMs = pauseMs;
    this.state = state;
  }

  watch(watcher: Watcher): Watch {
    this.#watchers.add(watcher);
    watcher.onState(this.state);
    watcher.onConnection({ status: 'live' });
    watcher.onJobs?.(this.transfers.jobs);
    watcher.onChats?.(this.chats.version);
    return {
      retry: () => this.connect({ status: 'live' }),
      close: () => this.#watchers.delete(watcher),
    };
  }

  /** Changes the state and tells every watcher. */
  set(change: (state: State) => void): State {
    const next = structuredClone(this.state);
    change(next);
    next.engines = next.engine.status === 'stopped' ? this.beside : [next.engine, ...this.beside];
    this.state = next;
    this.#tell((watcher) => watcher.onState(next));
    return next;
  }

  /** Changes the list of models and tells every watcher. */
  setModels(models: Model[], changes: ModelChange[] = []): void {
    this.found = models;
    this.set((state) => state.modelsVersion++);
    this.#tell((watcher) => watcher.onModels?.(changes));
  }

  /** Completes the download of a partially downloaded model. */
  finishDownload(id: string): void {
    this.setModels(
      this.found.map((model) => (model.id === id ? completed(model) : model)),
      [{ kind: 'finished', id, state: 'ready' }],
    );
  }

  connect(connection: Connection): void {
    this.#tell((watcher) => watcher.onConnection(connection));
  }

  /** Adds the current figures to the history, as the server does every five seconds. */
  sample(): void {
    this.set((state) => (state.speed.history = withSample(state, Date.now())));
  }

  async start(model: string): Promise<State> {
    this.#act(`start ${model}`);
    const loading = this.set(({ engine }) => {
      const idle = { progress: 0, error: null, retryAt: 0 };
      Object.assign(engine, { ...idle, status: 'loading', model: model || demo });
    });
    void this.#load();
    return loading;
  }

  async stop(model = ''): Promise<State> {
    this.#act(`stop ${model}`.trim());
    this.beside = this.beside.filter((one) => model && one.model !== model);
    if (model && model !== this.state.engine.model) return this.set(() => {});
    return this.set((state) => {
      const idle = { progress: 0, error: null, retryAt: 0 };
      Object.assign(state.engine, { ...idle, status: 'stopped', model: '' });
      Object.assign(state.speed, idleSpeed);
      state.requests = [];
      state.memory = fakeMemory(false);
      state.roomBytes = state.memory.headroomBytes;
    });
  }

  async cancel(requestId: string): Promise<void> {
    this.#act(`cancel ${requestId}`);
    this.set((state) => (state.requests = state.requests.filter(({ id }) => id !== requestId)));
  }

  async ask(path: string, body: object, signal: AbortSignal): Promise<unknown> {
    this.#act(`ask ${path} ${JSON.stringify(body)}`);
    const { status } = this.state.engine;
    if (status !== 'ready' && status !== 'busy')
      throw refusal('not_running', 'No model is running.');
    if (await this.#pause(signal)) throw refusal('cancelled', 'The request was cancelled.');
    const { model } = body as EndpointBody;
    const task = this.found.find(({ id }) => id === model)?.task ?? '';
    return endpointAnswer(path, body as EndpointBody, task);
  }

  async *chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
    this.asked.push(request);
    this.#failOnce();
    const running = this.#admit(request);
    let finishReason = 'cancelled';
    try {
      for (const event of answerTo(request, this.prefillTokens)) {
        this.#advance(running, event);
        if (event.type === 'finish') finishReason = event.reason;
        yield event;
        if (takesTime(event) && (await this.#pause(signal))) return;
        if (!this.state.requests.some(({ id }) => id === running.id))
          throw refusal('cancelled', 'The request was cancelled.');
      }
    } finally {
      this.#complete(running, finishReason, questionOf(request));
    }
  }

  async models(contextTokens: number): Promise<ModelList> {
    this.lists.push(contextTokens);
    const { engine, roomBytes } = this.state;
    const loaded = [engine, ...this.beside]
      .filter(({ status }) => status === 'ready' || status === 'busy')
      .map(({ model }) => model);
    const models = this.found.map((model) => ({
      ...model,
      loaded: loaded.includes(model.id),
      needBytes: model.needBytes + contextTokens * needBytesPerToken,
    }));
    const folders = ['/home/you/.cache/huggingface/hub', '/home/you/models'];
    const paused = this.#watchingPaused;
    const watch = { on: !paused, paused, watchedFolders: 12, polledFolders: 0, pollReason: '' };
    const largestParameters = roomBytes * 1.5;
    return {
      models: models.map((model) => ({
        ...model,
        need: fakeNeed(model.needBytes, contextTokens || model.contextTokens),
      })),
      contextTokens,
      roomBytes,
      largestParameters,
      folders,
      watch,
    };
  }

  async rescanModels(): Promise<void> {
    this.#act('rescan');
  }

  async pauseWatching(paused: boolean): Promise<void> {
    this.#act(`pause ${paused}`);
    this.#watchingPaused = paused;
  }

  async removeModel(id: string, path: string): Promise<void> {
    this.#act(`remove ${id} ${path}`);
    this.setModels(
      this.found.filter((model) => model.id !== id),
      [{ kind: 'vanished', id, state: 'ready' }],
    );
  }

  async revealModel(id: string, path: string): Promise<void> {
    this.#act(`reveal ${id} ${path}`);
  }

  async modelSettings(id: string): Promise<ModelSettings> {
    this.#failOnce();
    return this.options[id] ?? { settings: {}, readOnly: [] };
  }

  async draftModels(id: string): Promise<string[]> {
    this.#failOnce();
    return this.drafters[id] ?? [];
  }

  async changeModel(id: string, options: ModelOptions): Promise<ModelSettings> {
    this.#act(`settings ${id} ${JSON.stringify(options)}`);
    return (this.options[id] = { settings: options, readOnly: [] });
  }

  async whatIf({ model, contextTokens, streams }: WhatIfQuery): Promise<WhatIf> {
    this.#act(`what-if ${model} ${contextTokens} ${streams}`);
    const query = {
      model: model || this.state.engine.model || demo,
      contextTokens: contextTokens || 32_768,
      streams: streams || 8,
    };
    const weightsBytes = this.found.find(({ id }) => id === query.model)?.sizeBytes ?? 0;
    return fakeWhatIf(query, this.state, weightsBytes);
  }

  async wired(requestedBytes: number): Promise<Wired> {
    this.#failOnce();
    if (this.limit.unavailableReason) return this.limit;
    const { limitBytes, persistedBytes, earlierBytes } = this.limit;
    return { ...fakeWired(requestedBytes), limitBytes, persistedBytes, earlierBytes };
  }

  async changeWired(action: WiredAction, requestedBytes: number): Promise<Wired> {
    this.#act(`wired ${action} ${requestedBytes}`);
    const limitBytes =
      action === 'reset' ? this.limit.earlierBytes : requestedBytes || this.limit.safeBytes;
    const persistedBytes = action === 'set' ? this.limit.persistedBytes : limitBytes;
    return (this.limit = { ...fakeWired(requestedBytes), limitBytes, persistedBytes });
  }

  async finished(): Promise<FinishedRequest[]> {
    this.#failOnce();
    return this.requests;
  }

  async conversations(): Promise<ConversationList> {
    this.#act('conversations');
    return { stats: this.state.cache, conversations: this.kept, stale: this.silent };
  }

  async conversation(key: string): Promise<ConversationDetail> {
    this.#failOnce();
    return detailOf(this.#find(key));
  }

  async pin(key: string, pinned: boolean): Promise<void> {
    this.#act(`pin ${key} ${pinned}`);
    const found = this.#find(key);
    this.kept = this.kept.map((one) => (one === found ? { ...found, pinned } : one));
  }

  async forget(key: string): Promise<Removed> {
    this.#act(`forget ${key}`);
    return this.#removeSoon([this.#find(key)]);
  }

  async clearCache(fingerprint = ''): Promise<Removed> {
    this.#act(`clear ${fingerprint}`);
    return this.#removeSoon(
      this.kept.filter((one) => !fingerprint || one.fingerprint === fingerprint),
    );
  }

  async stored(): Promise<StoredItem[]> {
    this.#failOnce();
    const item = (kind: StoredItem['kind'], paths: string[], files: number, bytes: number) => ({
      kind,
      paths,
      files,
      bytes,
    });
    const chats = this.chats.kept.size;
    return [
      item('chats', ['/home/you/.local/share/headroom/chats'], chats, chats * 4000),
      item('cache', [this.settings.dir], this.kept.length, 1.2e9 * Math.sign(this.kept.length)),
      item('jobs', [], 0, 0),
      item('log', [], this.log.length, 90 * this.log.length),
      item('settings', ['/home/you/.config/headroom/settings.json'], 1, 700),
      item('keys', ['/home/you/.config/headroom/keys.json'], 1, 900),
      item('agents', ['/home/you/.config/headroom/agents'], 2, 2400),
      item('models', ['/home/you/.local/share/headroom/models'], ...this.storedModels),
    ];
  }

  async deleteStored(choice: StoredChoice): Promise<StoredDeleted> {
    this.#act(`delete everything ${JSON.stringify(choice)}`);
    const gone = await this.stored();
    for (const id of [...this.chats.kept.keys()]) await this.chats.remove(id);
    this.#remove(this.kept);
    const stay = ['keys', 'agents', ...(choice.models ? [] : ['models'])];
    const chosen = gone.filter(({ kind }) => !stay.includes(kind));
    return {
      files: chosen.reduce((sum, { files }) => sum + files, 0),
      bytes: chosen.reduce((sum, { bytes }) => sum + bytes, 0),
      left: this.leaves,
    };
  }

  async cacheSettings(): Promise<CacheSettings> {
    this.#failOnce();
    return this.settings;
  }

  async changeCache(change: CacheChange): Promise<CacheSettings> {
    this.#act(`change ${JSON.stringify(change)}`);
    let { needsRestart } = this.settings;
    if (change.on !== undefined) needsRestart = change.on === this.state.cache.on ? [] : ['on'];
    this.settings = { ...this.settings, ...change, needsRestart };
    this.set((state) => (state.cache = withLimits(state.cache, this.settings)));
    return this.settings;
  }

  async moveCache(dir: string): Promise<CacheMove> {
    this.#act(`move ${dir}`);
    const job = this.transfers.begin('cache', dir, this.state.cache.bytes);
    return { dir, bytes: job.totalBytes, job: job.id };
  }

  async apiKeys(): Promise<ApiKey[]> {
    this.#failOnce();
    return this.named;
  }

  async addApiKey(change: ApiKeyChange): Promise<NewApiKey> {
    this.#act(`add key ${JSON.stringify(change)}`);
    if (this.named.some(({ name }) => name === change.name))
      throw refusal('exists', `There is an API key "${change.name}" already`);
    const key = newKey(`key-${this.named.length}`, change, Date.now());
    this.named = [...this.named, key].sort((a, b) => a.name.localeCompare(b.name));
    return { key, text: `hr-text-of-${change.name}` };
  }

  async changeApiKey(id: string, change: ApiKeyChange): Promise<ApiKey[]> {
    this.#act(`change key ${id} ${JSON.stringify(change)}`);
    return (this.named = this.named.map((key) => (key.id === id ? { ...key, ...change } : key)));
  }

  async removeApiKey(id: string): Promise<ApiKey[]> {
    this.#act(`remove key ${id}`);
    return (this.named = this.named.filter((key) => key.id !== id));
  }

  async generalSettings(): Promise<GeneralSettings> {
    this.#failOnce();
    return { ...this.general, namedKeys: this.named.length };
  }

  async changeGeneral(change: GeneralChange): Promise<GeneralSettings> {
    this.#act(`general ${JSON.stringify(change)}`);
    let { needsRestart } = this.general;
    if (change.port !== undefined) needsRestart = change.port === defaultPort ? [] : ['port'];
    return (this.general = { ...this.general, ...change, needsRestart });
  }

  async logs(after: number): Promise<LogLines> {
    return { lines: this.log.filter(({ number }) => number > after), last: this.log.length };
  }

  #tell(event: (watcher: Watcher) => void): void {
    for (const watcher of this.#watchers) event(watcher);
  }

  /** Records an action. Throws nextError if it is set. */
  #act(call: string): void {
    this.calls.push(call);
    this.#failOnce();
  }

  #failOnce(): void {
    const error = this.nextError;
    this.nextError = null;
    if (error) throw error;
  }

  async #load(): Promise<void> {
    for (let progress = 0; progress < 1; progress += 0.25) {
      this.set((state) => (state.engine.progress = progress));
      await this.#pause();
      if (this.state.engine.status !== 'loading') return;
    }
    const { engine } = this.set((state) => {
      Object.assign(state.engine, { status: 'ready', progress: 1 });
      state.memory = fakeMemory(true);
    });
    this.log = [
      ...this.log,
      {
        number: this.log.length + 1,
        at: Date.now(),
        level: 'INFO',
        message: 'model loaded',
        fields: `model=${engine.model}`,
      },
    ];
  }

  /** Resolves to whether the signal was aborted meanwhile. */
  async #pause(signal?: AbortSignal): Promise<boolean> {
    await new Promise((resolve) => setTimeout(resolve, this.pauseMs));
    return signal?.aborted ?? false;
  }

  /** Starts a chat request. Throws when no model is loaded. */
  #admit(request: ChatRequest): RequestInFlight {
    const { status } = this.state.engine;
    if (status !== 'ready' && status !== 'busy')
      throw refusal('not_running', 'No model is running.');
    const running: RequestInFlight = {
      id: `chatcmpl-${++this.#served}`,
      title: request.private ? '' : questionOf(request).slice(0, 80),
      client: request.private ? '' : 'Headroom',
      key: '',
      model: request.model,
      phase: 'prefill',
      lacksBytes: 0,
      promptTokens: promptTokensOf(questionOf(request)),
      promptDoneTokens: 0,
      cachedTokens,
      generatedTokens: 0,
      tokensPerSecond: 0,
      startedAt: Date.now(),
    };
    this.#running.add(running.id);
    this.set((state) => {
      state.requests.push({ ...running });
      state.engine.status = 'busy';
      Object.assign(state.speed, runningSpeed);
    });
    return running;
  }

  /** Counts the tokens of an event. */
  #advance(running: RequestInFlight, event: ChatEvent): void {
    if (!takesTime(event)) return;
    if (event.type === 'prefill') running.promptDoneTokens = event.doneTokens;
    else {
      running.phase = 'decode';
      running.tokensPerSecond = runningSpeed.decodeTokensPerSecond;
      running.generatedTokens++;
    }
    this.set((state) => {
      state.requests = state.requests.map((one) => (one.id === running.id ? { ...running } : one));
    });
  }

  /** Ends a chat request: its conversation is cached, and it joins the finished requests. */
  #complete(request: RequestInFlight, finishReason: string, question: string): void {
    const conversation = cachedConversation(request, question);
    this.#running.delete(request.id);
    this.requests = [
      finishedRequest(request, finishReason, question, this.#lastQuestion),
      ...this.requests,
    ];
    this.#lastQuestion = question;
    this.kept = [conversation, ...this.kept];
    this.set((state) => {
      state.requests = state.requests.filter(({ id }) => id !== request.id);
      if (state.engine.status === 'busy' && this.#running.size === 0) state.engine.status = 'ready';
      if (state.requests.length === 0) Object.assign(state.speed, idleSpeed);
      state.cache = withEntries(state.cache, sizeOf([conversation]));
      state.lastFinished = request.id;
    });
  }

  #find(key: string): Conversation {
    const found = this.kept.find((one) => one.key === key);
    if (!found) throw refusal('not_found', `No conversation has the key ${key}`);
    return found;
  }

  /** The model answers again: removals that wait for it are completed. */
  wake(): void {
    this.silent = false;
    this.#remove(this.#leaving.splice(0));
  }

  #removeSoon(gone: Conversation[]): Removed {
    if (!this.silent) return this.#remove(gone);
    this.#leaving.push(...gone);
    return { entries: 0, bytes: 0, memoryBytes: 0, pending: true };
  }

  #remove(gone: Conversation[]): Removed {
    const size = sizeOf(gone);
    this.kept = this.kept.filter((one) => !gone.includes(one));
    this.set((state) => (state.cache = withoutEntries(state.cache, size)));
    return size;
  }
}

function takesTime({ type }: ChatEvent): boolean {
  return type === 'prefill' || type === 'reasoning' || type === 'content';
}
