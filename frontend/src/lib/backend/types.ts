// The control API's contract, word for word: app/control/api.go holds the Go side.
//
// Sizes are bytes, times are milliseconds since 1970 unless a name says otherwise,
// rates are tokens per second. The server may leave a list out or send null for an
// empty one; `normaliseState` in http.ts is the one place that repairs that.

import type { Sampling } from '../sampling';

export type EngineStatus = 'stopped' | 'loading' | 'ready' | 'busy' | 'failed' | 'resting';

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
  /** Of keys and values, for example "f16". */
  cacheFormat: string;
  /** Of recurrent states, for example "bf16"; empty for a model without. */
  stateFormat: string;
  error: ApiError | null;
  /** What to know besides, in any status: that the GPU is not used. */
  notice: ApiError | null;
}

export interface Endpoint {
  /** What an OpenAI client wants as its base URL. */
  url: string;
  uiUrl: string;
}

export type SegmentKind =
  'weights' | 'kv_used' | 'kv_kept' | 'state' | 'scratch' | 'headroom' | 'other' | 'free';

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
  /** Of the pages kept for reuse, reserved but never written. */
  untouchedBytes: number;
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
  /** Size of the disk; 0: unknown. */
  diskBytes: number;
  /** Free space of it. */
  freeBytes: number;
  /** Of it left alone; below 0: nothing. */
  minFreeBytes: number;
  /** Written today. */
  todayBytes: number;
  /** At most in a day; below 0: no limit. */
  dailyWriteBytes: number;
  /** Written since `writtenSince`; that is 0 where it is unknown. */
  writtenBytes: number;
  writtenSince: number;
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
  /** 0: not known. */
  parameters: number;
  /** For example "4-bit, group 64". */
  quantization: string;
  sizeBytes: number;
  /** Memory it takes when loaded: weights, cache, scratch. */
  needBytes: number;
  fits: Fit;
  loaded: boolean;
  bundled: boolean;
  /** Why it cannot be used; empty when it can. */
  error: string;
  /** Only a ready one can be started. */
  state: ModelState;
  /** The longest it was trained for. */
  contextTokens: number;
  /** When its files last changed; 0: not known. A download that has not changed for a minute has stopped. */
  updatedAt: number;
  /** Of one that is downloading, else null. */
  download: ModelDownload | null;
  /** Where it lies, path first; empty for the bundled one. */
  places: ModelPlace[];
}

export type ModelState = 'ready' | 'downloading' | 'broken' | 'not_loadable';

export interface ModelDownload {
  doneBytes: number;
  /** 0: not known. */
  totalBytes: number;
  /** Names of shards that are not here, and of files that are here in part. */
  missing: string[];
  parts: string[];
}

export interface ModelPlace {
  /** The id that it would have if it lay there alone. */
  id: string;
  path: string;
  origin: 'huggingface' | 'lmstudio' | 'omlx' | 'ollama' | 'folder';
}

/** The answer of GET /api/models?context=. */
export interface ModelList {
  models: Model[];
  /** The length of the one conversation that needBytes and fits are for; 0: what each would be opened with. */
  contextTokens: number;
  /** What fits is judged by: the headroom, and what the running model would give back. */
  roomBytes: number;
  folders: string[];
  watch: {
    on: boolean;
    paused: boolean;
    watchedFolders: number;
    polledFolders: number;
    pollReason: string;
  };
}

/** The data of a "models" event. */
export interface ModelsEvent {
  changes: ModelChange[];
}

export interface ModelChange {
  /** A finished one was on its way, is whole now and was verified. */
  kind: 'appeared' | 'changed' | 'finished' | 'vanished';
  id: string;
  state: ModelState;
}

/** How one model is run: app/settings.Model. What is 0, empty or missing is the default. */
export interface ModelOptions extends Sampling {
  contextTokens?: number;
  maxSequences?: number;
  kvFormat?: string;
  kvBits?: string;
  kvGroupSize?: string;
  kvBoundaryLayers?: number;
  kvBoundaryBits?: number;
  stateFormat?: string;
  maxKVTokens?: number;
  /** Variables for the chat template. */
  templateArguments?: Record<string, unknown>;
}

export interface ModelSettings {
  settings: ModelOptions;
  /** Names of settings that the command line says, for every model. */
  fixed: (keyof ModelOptions)[];
}

export type Fit = 'yes' | 'tight' | 'no';

export interface WhatIfQuery {
  /** Empty: the one that runs, or the bundled one. */
  model: string;
  /** Of each stream; 0: what it would be opened with. */
  contextTokens: number;
  /** That run at once; 0: what it would be opened with. */
  streams: number;
}

/** What a model would need, opened otherwise: app/host/whatif.go. */
export interface WhatIf {
  model: string;
  contextTokens: number;
  /** The longest context that the model was trained for. */
  trainedTokens: number;
  streams: number;
  roomBytes: number;
  /** What the model would be opened with first. */
  formats: WhatIfFormat[];
}

export interface WhatIfFormat {
  name: string;
  kvFormat: string;
  kvBits: string;
  kvBytesPerToken: number;
  weightsBytes: number;
  kvBytes: number;
  stateBytes: number;
  scratchBytes: number;
  /** The sum. */
  needBytes: number;
  fits: Fit;
  /** The longest context of that many streams that fits; 0: none does. */
  largestContextTokens: number;
}

/** How much the GPU of a Mac may hold in place: app/wired. */
export interface Wired {
  /** Why there is no such limit here; empty where there is one. */
  inapplicable: string;
  /** 0: the system's default holds. */
  setBytes: number;
  /** Set again at each start; 0: nothing is. */
  keptBytes: number;
  /** By Metal, for the limit that holds now; 0: unknown. */
  recommendedBytes: number;
  safeBytes: number;
  leastBytes: number;
  mostBytes: number;
  /** What the commands are for. */
  askedBytes: number;
  commands: Record<WiredAction, string>;
}

/** Until the next restart, over restarts, or back to the system's default. */
export type WiredAction = 'once' | 'keep' | 'undo';

/** Where the power comes from, how hot the computer is, and what is done about it: app/host/power.go. */
export interface Power {
  /** Empty: not known. */
  source: '' | 'mains' | 'battery';
  heat: '' | 'nominal' | 'fair' | 'serious' | 'critical';
  measures: Measure[];
}

export interface Measure {
  kind: 'ease' | 'rest' | 'disk';
  /** A few words. */
  title: string;
  /** A sentence or two. */
  text: string;
}

export interface State {
  version: string;
  engine: Engine;
  endpoint: Endpoint;
  memory: Memory;
  cache: Cache;
  speed: Speed;
  power: Power;
  requests: RequestInFlight[];
  /** Id of the request that ended last: where it changes, there are new ones to ask for. */
  lastFinished: string;
  /** Counts the changes of the list of models: where it changes, there is a new one to ask for. */
  modelsVersion: number;
  /** What models are judged by: the headroom, and what the running one would give back. */
  roomBytes: number;
}

/** What is kept of one conversation: app/cache holds the Go side. */
export interface Conversation {
  /** Empty for one that is in memory alone. */
  key: string;
  model: string;
  fingerprint: string;
  format: string;
  title: string;
  tokens: number;
  /** Of them in memory too. */
  hotTokens: number;
  /** Of files that are its alone, and of those that are others' too. */
  bytes: number;
  sharedBytes: number;
  createdAt: number;
  lastHitAt: number;
  hits: number;
  secondsSaved: number;
  pinned: boolean;
}

export interface ConversationEntry {
  key: string;
  kind: 'block' | 'tail' | 'state';
  /** Positions [from, to); a state's is to. */
  from: number;
  to: number;
  bytes: number;
  shared: boolean;
  hits: number;
}

export interface ConversationDetail extends Conversation {
  entries: ConversationEntry[];
}

export interface ConversationList {
  stats: Cache;
  conversations: Conversation[];
}

export interface Removed {
  entries: number;
  bytes: number;
  /** That the running model has freed. */
  memoryBytes: number;
}

/** Sizes of 0 are the default, below 0 no limit. */
export interface CacheSettings {
  on: boolean;
  dir: string;
  maxBytes: number;
  minFreeBytes: number;
  dailyWriteBytes: number;
  /** Names of the fields above that the command line says. */
  fixed: string[];
  /** And of those that hold from the next start of Headroom on. */
  pending: string[];
}

/** A move of the cache that begins. */
export interface CacheMove {
  /** Where it will lie. */
  dir: string;
  bytes: number;
  /** The id of its job. */
  job: string;
}

export type CacheChange = Partial<Omit<CacheSettings, 'fixed' | 'pending'>>;

/** What becomes of the engine when Headroom starts; empty: as it was left. */
export type Launch = '' | 'on' | 'off';
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** What is set for Headroom as a whole: app/control/general.go holds the Go side. */
export interface GeneralSettings {
  port: number;
  /** Empty: none is needed. */
  apiKey: string;
  allowHosts: string[];
  modelFolders: string[];
  /** Empty: Headroom's own. */
  importFolder: string;
  launch: Launch;
  /** Empty: the one that ran last. */
  defaultModel: string;
  /** After which a model that nobody uses is unloaded; 0: never. */
  restMinutes: number;
  logLevel: LogLevel;
  startAtLogin: boolean;
  /** The system's, for what ends while nobody looks. */
  notifications: boolean;
  /** On battery: an unused model is unloaded sooner, and less is written to disk. */
  saveOnBattery: boolean;
  /** In heat: the engine rests behind each step. */
  easeWhenHot: boolean;
  /** The welcome was seen. */
  welcomed: boolean;
  /** Of the file that people may edit. */
  path: string;
  /** Names of the fields above that cannot be changed here. */
  fixed: string[];
  /** And of those that hold from the next start of Headroom on. */
  pending: string[];
}

export type GeneralChange = Partial<Omit<GeneralSettings, 'path' | 'fixed' | 'pending'>>;

export interface LogLine {
  number: number;
  at: number;
  level: 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
  message: string;
  fields: string;
}

export interface LogLines {
  lines: LogLine[];
  /** The number of the newest line there is. */
  last: number;
}

export type RereadCause =
  | 'new_conversation'
  | 'continued'
  | 'head_changed'
  | 'date_changed'
  | 'counter_changed'
  | 'tools_reordered'
  | 'tools_changed'
  | 'thinking_stripped'
  | 'message_edited'
  | 'retokenized'
  | 'evicted'
  | 'state_not_kept'
  | 'cache_off'
  | 'format_changed'
  | 'model_changed';

/** Why a prompt, or its end, was read again: engine/reread explains. */
export interface Reread {
  cause: RereadCause;
  advice: string;
  /** The first token that was not as known; -1: nothing began like this. */
  breakToken: number;
  knownTokens: number;
  /** What both have before the first difference, then what was known and what the prompt says. */
  before: string;
  was: string;
  is: string;
  /** When what was known ended; 0: unknown. */
  knownAt: number;
}

/** A request that has ended; app/host/finished.go holds the Go side. */
export interface FinishedRequest {
  id: string;
  model: string;
  endedAt: number;
  finish: string;
  promptTokens: number;
  computedTokens: number;
  memoryTokens: number;
  diskTokens: number;
  generatedTokens: number;
  /** Blocks read from disk and written to it. */
  blockHits: number;
  blockWrites: number;
  queuedSeconds: number;
  prefillSeconds: number;
  /** From the request on. */
  firstTokenSeconds: number;
  decodeSeconds: number;
  longestGapSeconds: number;
  prefillTokensPerSecond: number;
  decodeTokensPerSecond: number;
  reread: Reread;
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
  sampling: Sampling;
  /** Functions that the model may call, as a request's tools has them; empty: none. */
  tools: unknown[];
}

export interface ChatUsage {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** Of completionTokens, thought and not said; null when the server does not count them. */
  reasoningTokens: number | null;
  /** By the engine's clock, 0 when there was one token alone; null when the server does not say. */
  tokensPerSecond: number | null;
}

/** What a streamed answer consists of, in the order of arrival. */
export type ChatEvent =
  | { type: 'prefill'; doneTokens: number; totalTokens: number }
  | { type: 'reasoning'; text: string }
  | { type: 'content'; text: string }
  /** A piece of the call of that number: its name once, its arguments in pieces of JSON. */
  | { type: 'call'; index: number; name: string; arguments: string }
  | { type: 'finish'; reason: string }
  | { type: 'usage'; usage: ChatUsage };
