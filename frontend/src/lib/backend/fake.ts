// A backend without a server: component tests and `npm run dev` with ?fake use it.
//
// It keeps the contract's promises (states on every change, an answer that stops when
// aborted) and repeats the question instead of answering it. Time passes only through
// `pauseMs`, which tests set to 0.
import { HeadroomError, type Backend, type Connection, type Watch, type Watcher } from './backend';
import { fakeConversations, fakeFinished } from './fakecache';
import { fakeModels, fakeWhatIf, fakeWired } from './fakemodels';
import { FakeChats } from './fakechats';
import { FakeTransfers } from './faketransfers';
import type {
  Cache,
  CacheChange,
  CacheMove,
  CacheSettings,
  ChatEvent,
  ChatRequest,
  Conversation,
  ConversationDetail,
  ConversationList,
  FinishedRequest,
  GeneralChange,
  GeneralSettings,
  LogLine,
  LogLines,
  Model,
  ModelChange,
  ModelList,
  ModelOptions,
  ModelSettings,
  Removed,
  SegmentKind,
  Source,
  State,
  WhatIf,
  WhatIfQuery,
  Wired,
  WiredAction,
} from './types';

export { fakeConversation } from './fakecache';
export { fakeModel } from './fakemodels';

const GiB = 2 ** 30;

export class FakeBackend implements Backend {
  state: State;
  /** Between two steps of loading, reading and answering. */
  pauseMs: number;
  /** Thrown by the next action, once. */
  nextError: HeadroomError | null = null;
  /** What was asked for, in order. */
  readonly calls: string[] = [];
  /** What was asked for in answers. */
  readonly asked: ChatRequest[] = [];
  /** The contexts for which models were listed: that goes on beside everything else. */
  readonly lists: number[] = [];
  found: Model[] = fakeModels();
  options: Record<string, ModelSettings> = {};
  limit: Wired = fakeWired(0);
  kept: Conversation[] = fakeConversations();
  requests: FinishedRequest[] = fakeFinished();
  general: GeneralSettings = {
    port: 11811,
    apiKey: '',
    allowHosts: [],
    modelFolders: [],
    importFolder: '',
    launch: '',
    defaultModel: '',
    idleUnloadMinutes: 0,
    logLevel: 'info',
    startAtLogin: false,
    notifications: true,
    saveOnBattery: true,
    throttleWhenHot: true,
    welcomed: true,
    path: '/home/you/.config/headroom/settings.json',
    readOnly: [],
    needsRestart: [],
  };
  log: LogLine[] = [
    {
      number: 1,
      at: Date.now() - 9000,
      level: 'INFO',
      message: 'loading',
      fields: 'model=headroom-demo',
    },
    {
      number: 2,
      at: Date.now() - 8000,
      level: 'WARN',
      message: 'another port is used',
      fields: 'err="port 11811 is taken"',
    },
  ];
  settings: CacheSettings = {
    on: true,
    dir: '/home/you/.cache/headroom/blocks',
    maxBytes: 0,
    minFreeBytes: 0,
    dailyWriteBytes: 0,
    readOnly: [],
    needsRestart: [],
  };
  #watchers = new Set<Watcher>();
  readonly transfers = new FakeTransfers(
    this.calls,
    () => this.#failOnce(),
    (jobs) => {
      for (const watcher of this.#watchers) watcher.onJobs?.(jobs);
    },
  );
  readonly chats = new FakeChats((version) => {
    for (const watcher of this.#watchers) watcher.onChats?.(version);
  });

  constructor(pauseMs = 0, state = fakeState()) {
    this.pauseMs = pauseMs;
    this.state = state;
  }

  watch(watcher: Watcher): Watch {
    this.#watchers.add(watcher);
    watcher.onState(this.state);
    watcher.onConnection({ status: 'live' });
    watcher.onChats?.(this.chats.version);
    return {
      retry: () => this.connect({ status: 'live' }),
      close: () => this.#watchers.delete(watcher),
    };
  }

  /** Changes the state and tells everybody. */
  set(change: (state: State) => void): State {
    const next = structuredClone(this.state);
    change(next);
    this.state = next;
    for (const watcher of this.#watchers) watcher.onState(next);
    return next;
  }

  /** Changes the list of models and tells everybody. */
  setModels(models: Model[], changes: ModelChange[] = []): void {
    this.found = models;
    this.set((state) => state.modelsVersion++);
    for (const watcher of this.#watchers) watcher.onModels?.(changes);
  }

  connect(connection: Connection): void {
    for (const watcher of this.#watchers) watcher.onConnection(connection);
  }

  async start(model: string): Promise<State> {
    this.calls.push(`start ${model}`);
    this.#failOnce();
    const loading = this.set((state) => {
      state.engine = { ...state.engine, status: 'loading', model, progress: 0, error: null };
    });
    void this.#load();
    return loading;
  }

  async stop(): Promise<State> {
    this.calls.push('stop');
    this.#failOnce();
    return this.set((state) => {
      state.engine = { ...state.engine, status: 'stopped', model: '', progress: 0 };
      state.requests = [];
      state.memory = fakeMemory(false);
      state.roomBytes = state.memory.headroomBytes;
    });
  }

  async cancel(requestId: string): Promise<void> {
    this.calls.push(`cancel ${requestId}`);
    this.#failOnce();
    this.set(
      (state) => (state.requests = state.requests.filter((request) => request.id !== requestId)),
    );
  }

  async models(contextTokens: number): Promise<ModelList> {
    this.lists.push(contextTokens);
    const { engine, roomBytes } = this.state;
    const models = this.found.map((model) => ({
      ...model,
      loaded: model.id === engine.model && (engine.status === 'ready' || engine.status === 'busy'),
      needBytes: model.needBytes + contextTokens * 10_000,
    }));
    const watch = { on: true, paused: false, watchedFolders: 12, polledFolders: 0, pollReason: '' };
    return {
      models,
      contextTokens,
      roomBytes,
      folders: ['/home/you/.cache/huggingface/hub', '/home/you/models'],
      watch,
    };
  }

  async rescanModels(): Promise<void> {
    this.calls.push('rescan');
    this.#failOnce();
  }

  async pauseWatching(paused: boolean): Promise<void> {
    this.calls.push(`pause ${paused}`);
    this.#failOnce();
  }

  async removeModel(id: string, path: string): Promise<void> {
    this.calls.push(`remove ${id} ${path}`);
    this.#failOnce();
    this.setModels(
      this.found.filter((model) => model.id !== id),
      [{ kind: 'vanished', id, state: 'ready' }],
    );
  }

  async revealModel(id: string, path: string): Promise<void> {
    this.calls.push(`reveal ${id} ${path}`);
    this.#failOnce();
  }

  async modelSettings(id: string): Promise<ModelSettings> {
    this.#failOnce();
    return this.options[id] ?? { settings: {}, readOnly: [] };
  }

  async changeModel(id: string, options: ModelOptions): Promise<ModelSettings> {
    this.calls.push(`settings ${id} ${JSON.stringify(options)}`);
    this.#failOnce();
    return (this.options[id] = { settings: options, readOnly: [] });
  }

  async whatIf(query: WhatIfQuery): Promise<WhatIf> {
    this.calls.push(`what-if ${query.model} ${query.contextTokens} ${query.streams}`);
    this.#failOnce();
    return fakeWhatIf(query, this.state);
  }

  async wired(limitBytes: number): Promise<Wired> {
    this.#failOnce();
    return this.limit.unavailableReason
      ? this.limit
      : {
          ...this.limit,
          ...fakeWired(limitBytes),
          limitBytes: this.limit.limitBytes,
          persistedBytes: this.limit.persistedBytes,
        };
  }

  async changeWired(action: WiredAction, limitBytes: number): Promise<Wired> {
    this.calls.push(`wired ${action} ${limitBytes}`);
    this.#failOnce();
    const next = action === 'reset' ? 0 : limitBytes || this.limit.safeBytes;
    const persistedBytes = action === 'set' ? this.limit.persistedBytes : next;
    return (this.limit = { ...fakeWired(next), limitBytes: next, persistedBytes });
  }

  async finished(): Promise<FinishedRequest[]> {
    this.#failOnce();
    return this.requests;
  }

  async conversations(): Promise<ConversationList> {
    this.calls.push('conversations');
    this.#failOnce();
    return { stats: this.state.cache, conversations: this.kept };
  }

  async conversation(key: string): Promise<ConversationDetail> {
    this.#failOnce();
    const { found } = this.#find(key);
    const entry = { bytes: 3e6, shared: false, hits: 2 };
    const entries: ConversationDetail['entries'] = [
      { ...entry, key: `${key}0`, kind: 'block', from: 0, to: 256, shared: true },
      { ...entry, key: `${key}1`, kind: 'state', from: 256, to: 256 },
      { ...entry, key, kind: 'tail', from: 256, to: found.tokens },
    ];
    return { ...found, entries };
  }

  async pin(key: string, pinned: boolean): Promise<void> {
    this.calls.push(`pin ${key} ${pinned}`);
    this.#failOnce();
    const { index, found } = this.#find(key);
    this.kept = this.kept.with(index, { ...found, pinned });
  }

  async forget(key: string): Promise<Removed> {
    this.calls.push(`forget ${key}`);
    this.#failOnce();
    const { index, found } = this.#find(key);
    this.kept = this.kept.toSpliced(index, 1);
    return { entries: 3, bytes: found.bytes, memoryBytes: found.memoryTokens * 10_000 };
  }

  async clearCache(fingerprint = ''): Promise<Removed> {
    this.calls.push(`clear ${fingerprint}`);
    this.#failOnce();
    const gone = this.kept.filter((one) => !fingerprint || one.fingerprint === fingerprint);
    this.kept = this.kept.filter((one) => !gone.includes(one));
    return {
      entries: gone.length,
      bytes: gone.reduce((sum, one) => sum + one.bytes, 0),
      memoryBytes: gone.reduce((sum, one) => sum + one.memoryTokens * 10_000, 0),
    };
  }

  async generalSettings(): Promise<GeneralSettings> {
    this.#failOnce();
    return this.general;
  }

  async changeGeneral(change: GeneralChange): Promise<GeneralSettings> {
    this.calls.push(`general ${JSON.stringify(change)}`);
    this.#failOnce();
    const needsRestart =
      change.port === undefined ? this.general.needsRestart : change.port === 11811 ? [] : ['port'];
    return (this.general = { ...this.general, ...change, needsRestart });
  }

  async logs(after: number): Promise<LogLines> {
    return { lines: this.log.filter((line) => line.number > after), last: this.log.length };
  }

  async cacheSettings(): Promise<CacheSettings> {
    this.#failOnce();
    return this.settings;
  }

  async changeCache(change: CacheChange): Promise<CacheSettings> {
    this.calls.push(`change ${JSON.stringify(change)}`);
    this.#failOnce();
    const needsRestart =
      change.on === undefined
        ? this.settings.needsRestart
        : change.on === this.state.cache.on
          ? []
          : ['on'];
    return (this.settings = { ...this.settings, ...change, needsRestart });
  }

  async moveCache(dir: string): Promise<CacheMove> {
    this.calls.push(`move ${dir}`);
    this.#failOnce();
    const job = this.transfers.begin('cache', dir, this.state.cache.bytes);
    return { dir, bytes: job.totalBytes, job: job.id };
  }

  #find(key: string): { index: number; found: Conversation } {
    const index = this.kept.findIndex((one) => one.key === key);
    const found = this.kept[index];
    if (!found)
      throw new HeadroomError({
        code: 'not_found',
        message: `No conversation has the key ${key}`,
        why: '',
        fix: '',
      });
    return { index, found };
  }

  async *chat(request: ChatRequest, signal: AbortSignal): AsyncGenerator<ChatEvent> {
    this.asked.push(request);
    this.#failOnce();
    const question = request.messages.at(-1)?.content ?? '';
    for (let done = 0; done <= 512; done += 128) {
      yield { type: 'prefill', doneTokens: done, totalTokens: 512 };
      if (await this.#pause(signal)) return;
    }
    const thoughts = request.thinking ? pieces(`The question was: ${question} I repeat it.`) : [];
    const words = pieces(
      `You said:\n\n> ${question}\n\n\`\`\`python\nprint(${JSON.stringify(question)})\n\`\`\``,
    );
    for (const text of thoughts) {
      yield { type: 'reasoning', text };
      if (await this.#pause(signal)) return;
    }
    for (const text of words) {
      yield { type: 'content', text };
      if (await this.#pause(signal)) return;
    }
    if (request.tools.length > 0) {
      yield { type: 'call', index: 0, name: 'weather', arguments: '{"city":' };
      yield { type: 'call', index: 0, name: '', arguments: ' "Oslo"}' };
    }
    yield { type: 'finish', reason: 'stop' };
    const completionTokens = thoughts.length + words.length;
    yield {
      type: 'usage',
      usage: {
        promptTokens: 512,
        cachedTokens: 384,
        completionTokens,
        reasoningTokens: thoughts.length,
        tokensPerSecond: null,
      },
    };
  }

  async #load(): Promise<void> {
    for (let progress = 0; progress < 1; progress += 0.25) {
      this.set((state) => (state.engine.progress = progress));
      await this.#pause();
      if (this.state.engine.status !== 'loading') return;
    }
    this.set((state) => {
      state.engine = { ...state.engine, status: 'ready', progress: 1 };
      state.memory = fakeMemory(true);
    });
  }

  /** True when the wait was ended by the signal. */
  async #pause(signal?: AbortSignal): Promise<boolean> {
    await new Promise((resolve) => setTimeout(resolve, this.pauseMs));
    return signal?.aborted ?? false;
  }

  #failOnce(): void {
    const error = this.nextError;
    this.nextError = null;
    if (error) throw error;
  }
}

function pieces(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}

/** A 24 GB machine with the demo model loaded and two requests running. */
export function fakeState(now = Date.now()): State {
  const sample = (index: number) => ({
    at: now - (119 - index) * 5000,
    decode: index < 30 ? 0 : 180 + 40 * Math.sin(index / 7),
    prefill: 0,
    memoryBytes: (index < 30 ? 0.2 : 1.4 + index / 400) * GiB,
  });
  return {
    version: '0.1.0',
    engine: {
      status: 'ready',
      model: 'headroom-demo',
      progress: 1,
      device: 'CPU, AVX-512 VNNI, 2 threads',
      contextTokens: 32768,
      cacheFormat: 'f16',
      stateFormat: 'f32',
      error: null,
      notice: null,
    },
    endpoint: { url: 'http://127.0.0.1:11811/v1', uiUrl: 'http://127.0.0.1:11811/' },
    memory: fakeMemory(true),
    cache: fakeCache({}),
    speed: {
      decodeTokensPerSecond: 212.4,
      prefillTokensPerSecond: 1204,
      history: Array.from({ length: 120 }, (_, index) => sample(index)),
    },
    power: { source: 'ac', thermalState: 'nominal', measures: [] },
    requests: [
      {
        id: 'chatcmpl-1',
        model: 'headroom-demo',
        phase: 'prefill',
        promptTokens: 8192,
        promptDoneTokens: 3072,
        cachedTokens: 2048,
        generatedTokens: 0,
        tokensPerSecond: 0,
        startedAt: now - 4000,
      },
      {
        id: 'chatcmpl-2',
        model: 'headroom-demo',
        phase: 'decode',
        promptTokens: 412,
        promptDoneTokens: 412,
        cachedTokens: 384,
        generatedTokens: 96,
        tokensPerSecond: 98.3,
        startedAt: now - 1400,
      },
    ],
    lastFinished: 'chatcmpl-0',
    modelsVersion: 1,
    roomBytes: 15.5 * GiB,
  };
}

export function fakeCache(change: Partial<Cache>): Cache {
  return {
    on: true,
    dir: '/home/you/.cache/headroom/blocks',
    bytes: 4.2e9,
    maxBytes: 20e9,
    entries: 2310,
    diskBytes: 494e9,
    freeBytes: 210e9,
    minFreeBytes: 10e9,
    todayBytes: 1.1e9,
    dailyWriteBytes: 40e9,
    writtenBytes: 12e9,
    writtenSince: Date.now() - 12 * 86_400_000,
    hits: 48,
    misses: 9,
    secondsSaved: 1900,
    dropped: 0,
    skipped: 0,
    damaged: 0,
    otherVersions: 0,
    evicted: 120,
    saveErrors: 0,
    error: '',
    memoryBytes: 1.4 * GiB,
    ...change,
  };
}

function fakeMemory(loaded: boolean): State['memory'] {
  const own: [SegmentKind, number, Source][] = loaded
    ? [
        ['weights', 4.1, 'measured'],
        ['kv_used', 0.6, 'measured'],
        ['kv_cached', 1.4, 'measured'],
        ['state', 0.2, 'measured'],
        ['scratch', 0.4, 'estimated'],
      ]
    : [];
  const sizes: [SegmentKind, number, Source][] = [
    ...own,
    ['headroom', 0.3, 'measured'],
    ['other', 7.2, 'reported'],
  ];
  const free = 24 - sizes.reduce((sum, [, size]) => sum + size, 0);
  return {
    totalBytes: 24 * GiB,
    availableBytes: free * GiB,
    headroomBytes: (free - 1) * GiB,
    wiredLimitBytes: 18 * GiB,
    untouchedBytes: loaded ? 1.1 * GiB : 0,
    segments: [...sizes, ['free', free, 'reported'] as [SegmentKind, number, Source]].map(
      ([kind, size, source]) => ({
        kind,
        bytes: size * GiB,
        source,
      }),
    ),
  };
}
