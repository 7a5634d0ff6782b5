// The control API's contract, word for word: app/control/api.go holds the Go side.
//
// Sizes are bytes, times are milliseconds since 1970 unless a name says otherwise,
// rates are tokens per second. The server may leave a list out or send null for an
// empty one; `normaliseState` in http.ts is the one place that repairs that.

export type EngineStatus = 'stopped' | 'loading' | 'ready' | 'busy' | 'failed';

/** What happened, why, and what to do, in the order in which a person is told. */
export interface ApiError {
  code: string;
  message: string;
  why: string;
  fix: string;
}

export interface Engine {
  status: EngineStatus;
  /** Id of the model in memory or on its way there; empty when there is none. */
  model: string;
  /** 0 to 1 while loading. */
  progress: number;
  /** For example "CPU, AVX-512 VNNI, 2 threads". */
  device: string;
  contextTokens: number;
  /** For example "f16". */
  cacheFormat: string;
  error: ApiError | null;
}

export interface Endpoint {
  /** What an OpenAI client wants as its base URL. */
  url: string;
  uiUrl: string;
}

export type SegmentKind =
  | 'weights'
  | 'kv_used'
  | 'kv_kept'
  | 'state'
  | 'scratch'
  | 'headroom'
  | 'other'
  | 'free';

/** Where a figure comes from; estimates are shown with a tilde. */
export type Source = 'measured' | 'reported' | 'estimated';

export interface Segment {
  kind: SegmentKind;
  bytes: number;
  source: Source;
}

export interface Memory {
  totalBytes: number;
  availableBytes: number;
  /** What a new model could take. */
  headroomBytes: number;
  /** 0 when the platform has none or it is unknown. */
  wiredLimitBytes: number;
  /** Adds up to totalBytes. */
  segments: Segment[];
}

/** The cache on disk, and how much memory keeps of ended requests. */
export interface Cache {
  on: boolean;
  dir: string;
  bytes: number;
  /** Below 0: no cap. */
  maxBytes: number;
  entries: number;
  /** Free space of the disk. */
  freeBytes: number;
  /** Of it left alone; below 0: nothing. */
  minFreeBytes: number;
  /** Written today. */
  todayBytes: number;
  /** At most in a day; below 0: no limit. */
  dailyWriteBytes: number;
  /** Written since ever. */
  writtenBytes: number;
  /** Prefixes read back. */
  hits: number;
  misses: number;
  secondsSaved: number;
  /** Conversations not written: the disk was slower, or a limit was reached. */
  dropped: number;
  skipped: number;
  /** Files removed because they were wrong, of another version, or in the way. */
  damaged: number;
  foreign: number;
  evicted: number;
  saveErrors: number;
  /** The last error of writing, or why the cache is off although it was asked for. */
  error: string;
  /** Keys and values in memory of requests that have ended. */
  hotBytes: number;
}

export interface SpeedSample {
  at: number;
  decode: number;
  prefill: number;
  memoryBytes: number;
}

export interface Speed {
  decodeTokensPerSecond: number;
  prefillTokensPerSecond: number;
  /** The last 10 minutes, one sample each 5 s, oldest first. */
  history: SpeedSample[];
}

export interface RequestInFlight {
  id: string;
  model: string;
  phase: 'waiting' | 'prefill' | 'decode';
  promptTokens: number;
  /** Of promptTokens, read so far, cached ones included. */
  promptDoneTokens: number;
  /** Of promptTokens, kept from earlier requests. */
  cachedTokens: number;
  generatedTokens: number;
  tokensPerSecond: number;
  startedAt: number;
}

export interface Model {
  id: string;
  name: string;
  path: string;
  architecture: string;
  /** For example "4-bit, group 64". */
  quantization: string;
  sizeBytes: number;
  /** Memory it takes when loaded: weights, cache, scratch. */
  needBytes: number;
  fits: 'yes' | 'tight' | 'no';
  loaded: boolean;
  bundled: boolean;
  /** Why it cannot be used; empty when it can. */
  error: string;
}

export interface State {
  version: string;
  engine: Engine;
  endpoint: Endpoint;
  memory: Memory;
  cache: Cache;
  speed: Speed;
  requests: RequestInFlight[];
  models: Model[];
}

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  /** Sent as chat_template_kwargs.enable_thinking. */
  thinking: boolean;
}

export interface ChatUsage {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** Of completionTokens, thought and not said; null when the server does not count them. */
  reasoningTokens: number | null;
}

/** What a streamed answer consists of, in the order of arrival. */
export type ChatEvent =
  | { type: 'prefill'; doneTokens: number; totalTokens: number }
  | { type: 'reasoning'; text: string }
  | { type: 'content'; text: string }
  | { type: 'finish'; reason: string }
  | { type: 'usage'; usage: ChatUsage };
