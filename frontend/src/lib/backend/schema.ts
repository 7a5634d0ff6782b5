// Code generated from openapi.json by `npm run generate`. DO NOT EDIT.
// SHA-256 of openapi.json: 6bc649363d119414a71df46f8e0aa0cd8c170fcc2a93e9a5e7b1c508afc3e3bf
//
// The JSON documents of the control API. The Go type of the same name, with its package as the
// prefix (HostState is host.State), documents the fields. Sizes are bytes, times are milliseconds
// since 1970 unless a name says otherwise. Go may send null for an empty list: filled() in
// fill.ts mends that, so lists are never null here.

export interface APIKey {
  concurrentRequests: number;
  createdAt: number;
  generatedTokens: number;
  id: string;
  lastUsedAt: number;
  models: string[];
  name: string;
  paired: boolean;
  priority: '' | 'batch';
  promptTokens: number;
  requests: number;
  requestsPerMinute: number;
}

export interface APIKeyChange {
  concurrentRequests?: number;
  models?: string[];
  name?: string;
  priority?: '' | 'batch';
  requestsPerMinute?: number;
}

export interface APIKeyList {
  keys: APIKey[];
}

export interface AgentLaunch {
  folder?: string;
  model?: string;
}

export interface AgentList {
  agents: AgentsListed[];
  target: AgentsTarget;
}

export interface AgentPlan {
  command: string;
  creates: boolean;
  deletes: boolean;
  leadsTo: string;
  lines: AgentsLine[];
  newKey: string;
  notes: string[];
  path: string;
  steps: string[];
  token: string;
}

export interface AgentUndo {
  token?: string;
}

export interface AgentWrite {
  model?: string;
  token?: string;
}

export interface AgentsLine {
  kind: 'same' | 'added' | 'removed' | 'gap';
  text: string;
}

export interface AgentsListed {
  canLaunch: boolean;
  canUndo: boolean;
  docs: string;
  id: string;
  keyName: string;
  name: string;
  path: string;
  program: string;
  state: 'notWritten' | 'current' | 'outdated' | 'edited' | 'manual';
  unavailable: string;
}

export interface AgentsPlan {
  creates: boolean;
  deletes: boolean;
  leadsTo: string;
  lines: AgentsLine[];
  newKey: string;
  notes: string[];
  path: string;
  steps: string[];
  token: string;
}

export interface AgentsTarget {
  contextTokens: number;
  model: string;
  needsKey: boolean;
  url: string;
}

export interface BugReport {
  parts: ReportPart[];
}

export interface CacheChange {
  dailyWriteBytes?: number;
  dir?: string;
  maxBytes?: number;
  minFreeBytes?: number;
  on?: boolean;
}

export interface CacheConversation {
  bytes: number;
  createdAt: number;
  fingerprint: string;
  format: string;
  hits: number;
  key: string;
  lastHitAt: number;
  memoryTokens: number;
  model: string;
  pinned: boolean;
  private: boolean;
  secondsSaved: number;
  sharedBytes: number;
  title: string;
  tokens: number;
}

export interface CacheDetail {
  bytes: number;
  createdAt: number;
  entries: CacheEntry[];
  fingerprint: string;
  format: string;
  hits: number;
  key: string;
  lastHitAt: number;
  memoryTokens: number;
  model: string;
  pinned: boolean;
  private: boolean;
  secondsSaved: number;
  sharedBytes: number;
  title: string;
  tokens: number;
}

export interface CacheEntry {
  bytes: number;
  from: number;
  hits: number;
  key: string;
  kind: 'block' | 'tail' | 'state';
  shared: boolean;
  to: number;
}

export interface CacheList {
  conversations: CacheConversation[];
  stale: boolean;
  stats: CacheStats;
}

export interface CacheMove {
  bytes: number;
  dir: string;
  job: string;
}

export interface CacheRemoved {
  bytes: number;
  entries: number;
  memoryBytes: number;
  pending: boolean;
}

export interface CacheSettings {
  dailyWriteBytes: number;
  dir: string;
  maxBytes: number;
  minFreeBytes: number;
  needsRestart: string[];
  on: boolean;
  readOnly: string[];
}

export interface CacheStats {
  bytes: number;
  dailyWriteBytes: number;
  damaged: number;
  dir: string;
  diskBytes: number;
  dropped: number;
  entries: number;
  error: string;
  evicted: number;
  freeBytes: number;
  hits: number;
  maxBytes: number;
  memoryBytes: number;
  minFreeBytes: number;
  misses: number;
  on: boolean;
  otherVersions: number;
  saveErrors: number;
  secondsSaved: number;
  skipped: number;
  todayBytes: number;
  writtenBytes: number;
  writtenSince: number;
}

export interface ChatList {
  chats: ChatsSummary[];
}

export interface ChatsAttachment {
  name: string;
  pages?: number;
  text: string;
}

export interface ChatsCall {
  arguments: string;
  name: string;
}

export interface ChatsChange {
  from?: number;
  messages?: ChatsMessage[];
  overtakes?: boolean;
  revision?: number;
  setup?: ChatsSetup;
  title?: string;
  updatedAt?: number;
}

export interface ChatsChat {
  messages: ChatsMessage[];
  setup?: ChatsSetup;
  summary: ChatsSummary;
}

export interface ChatsEvent {
  version: number;
}

export interface ChatsFault {
  code: string;
  fix: string;
  message: string;
  why: string;
}

export interface ChatsFigures {
  acceptedTokens: number;
  answerTokens: number;
  cachedTokens: number;
  draftTokens: number;
  estimated: boolean;
  firstTokenSeconds: number;
  promptTokens: number;
  tokensPerSecond: number;
}

export interface ChatsMessage {
  attachments?: ChatsAttachment[];
  calls?: ChatsCall[];
  content: string;
  end?: string;
  error?: ChatsFault;
  id: string;
  model?: string;
  others?: ChatsMessage[][];
  reasoning?: string;
  reasoningSeconds?: number;
  reasoningTokens?: number;
  role: string;
  stats?: ChatsFigures;
  version?: number;
}

export interface ChatsSetup {
  model?: string;
  preset?: string;
  prompt?: string;
  sampling?: Record<string, number>;
}

export interface ChatsSummary {
  damage: string;
  excerpt: string;
  id: string;
  messages: number;
  path: string;
  revision: number;
  title: string;
  updatedAt: number;
}

export interface CodeRequest {
  both?: boolean;
}

export interface DeleteStored {
  everything?: boolean;
  models?: boolean;
  settings?: boolean;
}

export interface DownloadRequest {
  files?: string[];
  id?: string;
  revision?: string;
}

export interface DraftModels {
  models: string[];
}

export interface ErrorBody {
  error: HostError | null;
}

export interface FoundMachine {
  address: string;
  name: string;
}

export interface GeneralChange {
  allowHosts?: string[];
  allowOrigins?: string[];
  apiKey?: string;
  defaultModel?: string;
  freeUnderPressure?: boolean;
  idleUnloadMinutes?: number;
  importFolder?: string;
  launch?: '' | 'on' | 'off';
  loadOnRequest?: boolean;
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
  menuBarFigure?: '' | 'speed' | 'memory';
  modelFolders?: string[];
  notifications?: boolean;
  ollamaDelete?: boolean;
  ollamaPort?: boolean;
  port?: number;
  requestWaitMinutes?: number;
  saveOnBattery?: boolean;
  startAtLogin?: boolean;
  throttleWhenHot?: boolean;
  updateFeed?: string;
  updateKey?: string;
  welcomed?: boolean;
}

export interface GeneralSettings {
  allowHosts: string[];
  allowOrigins: string[];
  apiKey: string;
  defaultModel: string;
  freeUnderPressure: boolean;
  idleUnloadMinutes: number;
  importFolder: string;
  launch: '' | 'on' | 'off';
  loadOnRequest: boolean;
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  menuBarFigure: '' | 'speed' | 'memory';
  modelFolders: string[];
  namedKeys: number;
  needsRestart: string[];
  notifications: boolean;
  ollamaDelete: boolean;
  ollamaPort: boolean;
  path: string;
  port: number;
  readOnly: string[];
  requestWaitMinutes: number;
  saveOnBattery: boolean;
  startAtLogin: boolean;
  throttleWhenHot: boolean;
  updateFeed: string;
  updateKey: string;
  welcomed: boolean;
}

export interface HostAdapter {
  dora: boolean;
  id: string;
  name: string;
  path: string;
  rank: number;
  sizeBytes: number;
}

export interface HostCacheMiss {
  advice: string;
  cause: 'new_conversation' | 'continued' | 'head_changed' | 'date_changed' | 'counter_changed' | 'tools_reordered' | 'tools_changed' | 'thinking_stripped' | 'message_edited' | 'retokenized' | 'evicted' | 'state_not_cached' | 'cache_off' | 'format_changed' | 'model_changed' | 'private';
  commonText: string;
  commonTokens: number;
  firstDifference: number;
  previousAt: number;
  previousText: string;
  promptText: string;
  recomputedTokens: number;
}

export interface HostCheckParting {
  other: HostCheckToken;
  plain: HostCheckToken;
  prompt: number;
  token: number;
}

export interface HostCheckRow {
  answers: number;
  decodeTokensPerSecond: number;
  equalAnswers: number;
  equalTokens: number;
  largestDifference: number | null;
  mustEqual: boolean;
  notTried: string;
  note: string;
  partings: HostCheckParting[];
  prefillTokensPerSecond: number;
  tokens: number;
  way: string;
}

export interface HostCheckToken {
  ended: boolean;
  logprob: number | null;
  text: string;
}

export interface HostDownload {
  doneBytes: number;
  missing: string[];
  parts: string[];
  totalBytes: number;
}

export interface HostEndpoint {
  uiUrl: string;
  url: string;
}

export interface HostEngineState {
  acceptedTokens: number;
  cacheFormat: string;
  contextTokens: number;
  decodeTokensPerSecond: number;
  device: string;
  draftModel: string;
  draftModelUnused: string;
  draftTokens: number;
  drafter: '' | 'mtp' | 'draft' | 'dflash';
  error: HostError | null;
  gained: number;
  generatedTokens: number;
  lastUsedAt: number;
  lookups: boolean;
  memoryBytes: number;
  model: string;
  noDrafts: string;
  notice: HostError | null;
  pinned: boolean;
  progress: number;
  requested: boolean;
  requests: number;
  reservedBytes: number;
  retryAt: number;
  savedSeconds: number;
  stateFormat: string;
  status: 'stopped' | 'loading' | 'ready' | 'busy' | 'failed' | 'unloaded';
}

export interface HostError {
  code: string;
  detail?: string;
  fix: string;
  message: string;
  why: string;
}

export interface HostFinished {
  acceptedTokens: number;
  blockHits: number;
  blockWrites: number;
  cacheMiss: HostCacheMiss;
  client: string;
  computedTokens: number;
  decodeSeconds: number;
  decodeTokensPerSecond: number;
  diskTokens: number;
  draftTokens: number;
  endedAt: number;
  finishReason: string;
  firstTokenSeconds: number;
  gained: number;
  generatedTokens: number;
  id: string;
  key: string;
  longestGapSeconds: number;
  memoryTokens: number;
  model: string;
  noDrafts: string;
  prefillSeconds: number;
  prefillTokensPerSecond: number;
  promptTokens: number;
  queuedSeconds: number;
  savedSeconds: number;
  title: string;
}

export interface HostFinishedList {
  requests: HostFinished[];
}

export interface HostModel {
  adapters: HostAdapter[];
  architecture: string;
  blockUnused: string;
  bundled: boolean;
  contextTokens: number;
  convertible: boolean;
  download: HostDownload | null;
  drafts: boolean;
  error: string;
  fits: 'yes' | 'tight' | 'no';
  id: string;
  loaded: boolean;
  name: string;
  need: HostNeedParts;
  needBytes: number;
  parameters: number;
  path: string;
  places: HostPlace[];
  quantization: string;
  sizeBytes: number;
  state: 'ready' | 'downloading' | 'broken' | 'not_loadable' | 'drafter';
  task: '' | 'embed' | 'rerank';
  updatedAt: number;
}

export interface HostModelChange {
  id: string;
  kind: 'appeared' | 'changed' | 'finished' | 'vanished';
  state: 'ready' | 'downloading' | 'broken' | 'not_loadable' | 'drafter';
}

export interface HostModelCheck {
  answers: number;
  device: string;
  endedAt: number;
  equal: boolean;
  error: HostError | null;
  kvFormat: string;
  maxTokens: number;
  model: string;
  rows: HostCheckRow[];
  startedAt: number;
  status: 'none' | 'running' | 'done' | 'failed' | 'stopped';
  step: number;
  steps: number;
  verdict: string;
  what: string;
}

export interface HostModelList {
  contextTokens: number;
  folders: string[];
  largestParameters: number;
  models: HostModel[];
  roomBytes: number;
  watch: HostModelsWatch;
}

export interface HostModelsWatch {
  on: boolean;
  paused: boolean;
  pollReason: string;
  polledFolders: number;
  watchedFolders: number;
}

export interface HostNeedParts {
  contextTokens: number;
  kvBytes: number;
  scratchBytes: number;
  stateBytes: number;
  weightsBytes: number;
}

export interface HostPlace {
  id: string;
  origin: 'huggingface' | 'lmstudio' | 'omlx' | 'ollama' | 'folder';
  path: string;
}

export interface HostPowerState {
  measures: PowerMeasure[];
  source: '' | 'ac' | 'battery';
  thermalState: '' | 'nominal' | 'fair' | 'serious' | 'critical';
}

export interface HostPressureState {
  advice: HostUnloadAdvice[];
  freedBytes: number;
  level: '' | 'normal' | 'warning' | 'critical';
  stallPercent: number;
  swapTotalBytes: number;
  swapUsedBytes: number;
}

export interface HostRequest {
  cachedTokens: number;
  client: string;
  generatedTokens: number;
  id: string;
  key: string;
  lacksBytes: number;
  machine?: string;
  model: string;
  phase: 'waiting' | 'prefill' | 'decode';
  promptDoneTokens: number;
  promptTokens: number;
  startedAt: number;
  title: string;
  tokensPerSecond: number;
}

export interface HostReuse {
  computedTokens: number;
  diskTokens: number;
  memoryTokens: number;
  recomputedTokens: number;
}

export interface HostSample {
  at: number;
  decode: number;
  memoryBytes: number;
  prefill: number;
}

export interface HostSpeed {
  decodeTokensPerSecond: number;
  history: HostSample[];
  prefillTokensPerSecond: number;
}

export interface HostState {
  cache: CacheStats;
  checking: string;
  checksVersion: number;
  endpoint: HostEndpoint;
  engine: HostEngineState;
  engines: HostEngineState[];
  lastFinished: string;
  memory: MemoryLedger;
  modelsVersion: number;
  power: HostPowerState;
  pressure: HostPressureState;
  requests: HostRequest[];
  reuse: HostReuse;
  roomBytes: number;
  speed: HostSpeed;
  version: string;
}

export interface HostSuggestion {
  contextTokens: number;
  downloadBytes: number;
  fits: 'yes' | 'tight' | 'no';
  id: string;
  licence: string;
  need: HostNeedParts;
  needBytes: number;
  note: string;
  parameters: number;
  quantization: string;
  tokensPerSecond: number;
}

export interface HostUnloadAdvice {
  busy: boolean;
  freesBytes: number;
  lastUsedAt: number;
  model: string;
  pinned: boolean;
}

export interface HostWhatIf {
  contextTokens: number;
  formats: HostWhatIfFormat[];
  model: string;
  roomBytes: number;
  streams: number;
  trainedTokens: number;
}

export interface HostWhatIfFormat {
  fits: 'yes' | 'tight' | 'no';
  fullBytes: number;
  kvBits: string;
  kvBytesPerToken: number;
  kvFormat: string;
  largestContextTokens: number;
  memory: MemoryLedger;
  name: string;
  need: HostNeedParts;
  needBytes: number;
}

export interface HubChange {
  endpoint?: string;
  token?: string;
}

export interface HubFile {
  bytes: number;
  needed: boolean;
  path: string;
}

export interface HubModel {
  contextTokens: number;
  downloads: number;
  fits: 'yes' | 'tight' | 'no';
  gated: boolean;
  id: string;
  licence: string;
  likes: number;
  mlx: boolean;
  modelType: string;
  need: HostNeedParts;
  needBytes: number;
  parameters: number;
  quantization: string;
  sizeBytes: number;
  supported: boolean;
  tags: string[];
  tokensPerSecond: number;
  updatedAt: number;
  why: string;
}

export interface HubRepository {
  commit: string;
  error: HostError | null;
  files: HubFile[];
  gated: boolean;
  id: string;
}

export interface HubSearch {
  models: HubModel[];
}

export interface HubSettings {
  configuredEndpoint: string;
  endpoint: string;
  folder: string;
  token: '' | 'environment' | 'keychain' | 'file';
}

export interface HubSuggestions {
  suggestions: HostSuggestion[];
}

export interface ImportItem {
  bytes: number;
  clones: boolean;
  converts: boolean;
  error: HostError | null;
  job: string;
  listed: string;
  name: string;
  path: string;
  source: string;
  writtenBytes: number;
}

export interface ImportPlan {
  folder: string;
  freeBytes: number;
  items: ImportItem[];
  mode: 'copy' | 'move' | 'link';
  writtenBytes: number;
}

export interface ImportRequest {
  mode?: 'copy' | 'move' | 'link';
  name?: string;
  packing?: ImporterPacking;
  paths?: string[];
}

export interface ImporterPacking {
  bits?: number;
  group?: number;
  mode?: string;
}

export interface Job {
  bytesPerSecond: number;
  doneBytes: number;
  error: HostError | null;
  file: string;
  id: string;
  kind: 'import' | 'download' | 'cache' | 'training';
  path: string;
  phase: string;
  secondsLeft: number;
  startedAt: number;
  state: 'waiting' | 'running' | 'done' | 'failed' | 'stopped';
  title: string;
  totalBytes: number;
  training: TrainStatus | null;
}

export interface JobList {
  jobs: Job[];
}

export interface JoinRequest {
  address?: string;
  both?: boolean;
  code?: string;
}

export interface JoinedMachine {
  address: string;
  both: boolean;
  name: string;
}

export interface LogLines {
  last: number;
  lines: LogsLine[];
}

export interface LogsLine {
  at: number;
  fields: string;
  level: 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
  message: string;
  number: number;
}

export interface Machine {
  certificate: string;
  error: string;
  hasKey: boolean;
  id: string;
  kind: string;
  models: MachineModel[];
  name: string;
  off: boolean;
  paired: boolean;
  requests: number;
  roomBytes: number;
  url: string;
  usedModels: string[];
}

export interface MachineChange {
  apiKey?: string;
  certificate?: string;
  kind?: string;
  name?: string;
  off?: boolean;
  url?: string;
  usedModels?: string[];
}

export interface MachineList {
  error: string;
  machines: Machine[];
}

export interface MachineModel {
  contextTokens: number;
  id: string;
  loaded: boolean;
  requests: number;
}

export interface MemoryLedger {
  availableBytes: number;
  headroomBytes: number;
  segments: MemorySegment[];
  totalBytes: number;
  wiredLimitBytes: number;
}

export interface MemorySegment {
  bytes: number;
  kind: 'weights' | 'kv_used' | 'kv_cached' | 'state' | 'scratch' | 'reserved' | 'headroom' | 'other' | 'free';
  source: 'measured' | 'reported' | 'estimated';
}

export interface ModelSettings {
  readOnly: string[];
  settings: SettingsModel;
}

export interface ModelsEvent {
  changes: HostModelChange[];
}

export interface MoveRequest {
  dir?: string;
}

export interface NewAPIKey {
  key: APIKey;
  text: string;
}

export interface PairedMachine {
  certificate: string;
  keyId: string;
  lastUsedAt: number;
  name: string;
  pairedAt: number;
}

export interface PairingCode {
  code: string;
  expiresAt: number;
  machine: string;
  phase: '' | 'open' | 'paired' | 'expired' | 'void';
  tries: number;
}

export interface PinRequest {
  pinned?: boolean;
}

export interface PlaceRequest {
  path?: string;
}

export interface PowerMeasure {
  kind: 'idle_unload' | 'reduce_writes' | 'throttle' | 'draft_less';
  text: string;
  title: string;
}

export interface ReportPart {
  name: string;
  text: string;
}

export interface SettingsModel {
  aliases?: string[];
  contextTokens?: number;
  draftModel?: string;
  frequencyPenalty?: number;
  idleUnloadMinutes?: number;
  kvBits?: string;
  kvBoundaryBits?: number;
  kvBoundaryLayers?: number;
  kvFormat?: string;
  kvGroupSize?: string;
  kvStartTokens?: number;
  maxKVTokens?: number;
  maxSequences?: number;
  maxTokens?: number;
  minP?: number;
  numDraftTokens?: number;
  pinned?: boolean;
  presencePenalty?: number;
  repetitionPenalty?: number;
  seed?: number;
  snapKV?: boolean;
  snapKVTokens?: number;
  speculate?: string;
  stateFormat?: string;
  temperature?: number;
  templateArguments?: Record<string, unknown>;
  topK?: number;
  topP?: number;
}

export interface Sharing {
  addresses: string[];
  certificate: string;
  code: PairingCode;
  find: boolean;
  findProblem: HostError | null;
  found: FoundMachine[];
  name: string;
  on: boolean;
  open: boolean;
  port: number;
  problem: HostError | null;
  readOnly: string[];
  users: PairedMachine[];
}

export interface SharingChange {
  find?: boolean;
  on?: boolean;
}

export interface StartRequest {
  model?: string;
}

export interface StopRequest {
  model?: string;
}

export interface StoredDeleted {
  bytes: number;
  files: number;
  left: string[];
}

export interface StoredItem {
  bytes: number;
  files: number;
  kind: 'chats' | 'cache' | 'batches' | 'jobs' | 'training' | 'log' | 'settings' | 'keys' | 'agents' | 'models';
  paths: string[];
}

export interface StoredList {
  items: StoredItem[];
}

export interface TrainLoss {
  iteration: number;
  loss: number;
}

export interface TrainLosses {
  train: TrainLoss[];
  valid: TrainLoss[];
}

export interface TrainRequest {
  batchSize?: number;
  data?: string;
  fineTuneType?: string;
  gradCheckpoint?: boolean;
  iterations?: number;
  layers?: number;
  learningRate?: number;
  maskPrompt?: boolean;
  maxSeqLength?: number;
  model?: string;
  name?: string;
}

export interface TrainStatus {
  adapter: string;
  data: string;
  fineTuneType: string;
  iteration: number;
  iterations: number;
  iterationsPerSecond: number;
  learningRate: number;
  losses: number;
  model: string;
  name: string;
  peakBytes: number;
  savedIteration: number;
  secondsLeft: number;
  tokensPerSecond: number;
  trainLoss: number | null;
  trainedTokens: number;
  validLoss: number | null;
}

export interface TrainingFault {
  file: string;
  line: number;
  why: string;
}

export interface TrainingMemory {
  activationsBytes: number;
  error: HostError | null;
  fits: 'yes' | 'tight' | 'no';
  logitsBytes: number;
  needBytes: number;
  parametersBytes: number;
  roomBytes: number;
  weightsBytes: number;
}

export interface TrainingPlan {
  adapter: string;
  batchSize: number;
  dataError: HostError | null;
  faults: TrainingFault[];
  fineTuneType: string;
  iterations: number;
  layers: number;
  learningRate: number;
  maxSeqLength: number;
  memory: TrainingMemory;
  modelLayers: number;
  name: string;
  python: TrainingPython;
  quantized: boolean;
  ready: boolean;
  sets: TrainingSet[];
}

export interface TrainingPython {
  diskBytes: number;
  error: HostError | null;
  folder: string;
  packages: string;
  ready: boolean;
  source: string;
}

export interface TrainingSet {
  cut: number;
  file: string;
  form: string;
  longest: number;
  masked: number;
  median: number;
  part: 'train' | 'valid' | 'test';
  samples: number;
  shown: string[];
  tokens: number;
}

export interface TrainingStart {
  batchSize?: number;
  data?: string;
  fineTuneType?: string;
  gradCheckpoint?: boolean;
  install?: boolean;
  iterations?: number;
  layers?: number;
  learningRate?: number;
  maskPrompt?: boolean;
  maxSeqLength?: number;
  model?: string;
  name?: string;
}

export interface UpdateStatus {
  bytes: number;
  checkedAt: number;
  current: string;
  doneBytes: number;
  error: HostError | null;
  goesBack: boolean;
  installed: boolean;
  notes: string;
  phase: 'off' | 'idle' | 'checking' | 'available' | 'downloading' | 'ready';
  previous: string;
  version: string;
}

export interface WatchRequest {
  paused?: boolean;
}

export interface WiredCommands {
  persist: string;
  reset: string;
  set: string;
}

export interface WiredRequest {
  action?: 'set' | 'persist' | 'reset';
  limitBytes?: number;
}

export interface WiredStatus {
  commands: WiredCommands;
  earlierBytes: number;
  limitBytes: number;
  maxBytes: number;
  minBytes: number;
  persistedBytes: number;
  recommendedBytes: number;
  requestedBytes: number;
  safeBytes: number;
  unavailableReason: string;
}

/** Every schema by its name. */
export interface Schemas {
  APIKey: APIKey;
  APIKeyChange: APIKeyChange;
  APIKeyList: APIKeyList;
  AgentLaunch: AgentLaunch;
  AgentList: AgentList;
  AgentPlan: AgentPlan;
  AgentUndo: AgentUndo;
  AgentWrite: AgentWrite;
  AgentsLine: AgentsLine;
  AgentsListed: AgentsListed;
  AgentsPlan: AgentsPlan;
  AgentsTarget: AgentsTarget;
  BugReport: BugReport;
  CacheChange: CacheChange;
  CacheConversation: CacheConversation;
  CacheDetail: CacheDetail;
  CacheEntry: CacheEntry;
  CacheList: CacheList;
  CacheMove: CacheMove;
  CacheRemoved: CacheRemoved;
  CacheSettings: CacheSettings;
  CacheStats: CacheStats;
  ChatList: ChatList;
  ChatsAttachment: ChatsAttachment;
  ChatsCall: ChatsCall;
  ChatsChange: ChatsChange;
  ChatsChat: ChatsChat;
  ChatsEvent: ChatsEvent;
  ChatsFault: ChatsFault;
  ChatsFigures: ChatsFigures;
  ChatsMessage: ChatsMessage;
  ChatsSetup: ChatsSetup;
  ChatsSummary: ChatsSummary;
  CodeRequest: CodeRequest;
  DeleteStored: DeleteStored;
  DownloadRequest: DownloadRequest;
  DraftModels: DraftModels;
  ErrorBody: ErrorBody;
  FoundMachine: FoundMachine;
  GeneralChange: GeneralChange;
  GeneralSettings: GeneralSettings;
  HostAdapter: HostAdapter;
  HostCacheMiss: HostCacheMiss;
  HostCheckParting: HostCheckParting;
  HostCheckRow: HostCheckRow;
  HostCheckToken: HostCheckToken;
  HostDownload: HostDownload;
  HostEndpoint: HostEndpoint;
  HostEngineState: HostEngineState;
  HostError: HostError;
  HostFinished: HostFinished;
  HostFinishedList: HostFinishedList;
  HostModel: HostModel;
  HostModelChange: HostModelChange;
  HostModelCheck: HostModelCheck;
  HostModelList: HostModelList;
  HostModelsWatch: HostModelsWatch;
  HostNeedParts: HostNeedParts;
  HostPlace: HostPlace;
  HostPowerState: HostPowerState;
  HostPressureState: HostPressureState;
  HostRequest: HostRequest;
  HostReuse: HostReuse;
  HostSample: HostSample;
  HostSpeed: HostSpeed;
  HostState: HostState;
  HostSuggestion: HostSuggestion;
  HostUnloadAdvice: HostUnloadAdvice;
  HostWhatIf: HostWhatIf;
  HostWhatIfFormat: HostWhatIfFormat;
  HubChange: HubChange;
  HubFile: HubFile;
  HubModel: HubModel;
  HubRepository: HubRepository;
  HubSearch: HubSearch;
  HubSettings: HubSettings;
  HubSuggestions: HubSuggestions;
  ImportItem: ImportItem;
  ImportPlan: ImportPlan;
  ImportRequest: ImportRequest;
  ImporterPacking: ImporterPacking;
  Job: Job;
  JobList: JobList;
  JoinRequest: JoinRequest;
  JoinedMachine: JoinedMachine;
  LogLines: LogLines;
  LogsLine: LogsLine;
  Machine: Machine;
  MachineChange: MachineChange;
  MachineList: MachineList;
  MachineModel: MachineModel;
  MemoryLedger: MemoryLedger;
  MemorySegment: MemorySegment;
  ModelSettings: ModelSettings;
  ModelsEvent: ModelsEvent;
  MoveRequest: MoveRequest;
  NewAPIKey: NewAPIKey;
  PairedMachine: PairedMachine;
  PairingCode: PairingCode;
  PinRequest: PinRequest;
  PlaceRequest: PlaceRequest;
  PowerMeasure: PowerMeasure;
  ReportPart: ReportPart;
  SettingsModel: SettingsModel;
  Sharing: Sharing;
  SharingChange: SharingChange;
  StartRequest: StartRequest;
  StopRequest: StopRequest;
  StoredDeleted: StoredDeleted;
  StoredItem: StoredItem;
  StoredList: StoredList;
  TrainLoss: TrainLoss;
  TrainLosses: TrainLosses;
  TrainRequest: TrainRequest;
  TrainStatus: TrainStatus;
  TrainingFault: TrainingFault;
  TrainingMemory: TrainingMemory;
  TrainingPlan: TrainingPlan;
  TrainingPython: TrainingPython;
  TrainingSet: TrainingSet;
  TrainingStart: TrainingStart;
  UpdateStatus: UpdateStatus;
  WatchRequest: WatchRequest;
  WiredCommands: WiredCommands;
  WiredRequest: WiredRequest;
  WiredStatus: WiredStatus;
}

/** The fields that hold lists ("[]") or other documents (a schema's name), by schema. */
export const nested: Record<string, Record<string, string>> = {
  APIKey: { models: '[]' },
  APIKeyList: { keys: '[]APIKey' },
  AgentList: { agents: '[]AgentsListed', target: 'AgentsTarget' },
  AgentPlan: { lines: '[]AgentsLine', notes: '[]', steps: '[]' },
  AgentsPlan: { lines: '[]AgentsLine', notes: '[]', steps: '[]' },
  BugReport: { parts: '[]ReportPart' },
  CacheDetail: { entries: '[]CacheEntry' },
  CacheList: { conversations: '[]CacheConversation', stats: 'CacheStats' },
  CacheSettings: { needsRestart: '[]', readOnly: '[]' },
  ChatList: { chats: '[]ChatsSummary' },
  ChatsChange: { setup: 'ChatsSetup' },
  ChatsChat: { messages: '[]ChatsMessage', setup: 'ChatsSetup', summary: 'ChatsSummary' },
  ChatsMessage: { error: 'ChatsFault', stats: 'ChatsFigures' },
  DraftModels: { models: '[]' },
  ErrorBody: { error: 'HostError' },
  GeneralSettings: { allowHosts: '[]', allowOrigins: '[]', modelFolders: '[]', needsRestart: '[]', readOnly: '[]' },
  HostCheckParting: { other: 'HostCheckToken', plain: 'HostCheckToken' },
  HostCheckRow: { partings: '[]HostCheckParting' },
  HostDownload: { missing: '[]', parts: '[]' },
  HostEngineState: { error: 'HostError', notice: 'HostError' },
  HostFinished: { cacheMiss: 'HostCacheMiss' },
  HostFinishedList: { requests: '[]HostFinished' },
  HostModel: { adapters: '[]HostAdapter', download: 'HostDownload', need: 'HostNeedParts', places: '[]HostPlace' },
  HostModelCheck: { error: 'HostError', rows: '[]HostCheckRow' },
  HostModelList: { folders: '[]', models: '[]HostModel', watch: 'HostModelsWatch' },
  HostPowerState: { measures: '[]PowerMeasure' },
  HostPressureState: { advice: '[]HostUnloadAdvice' },
  HostSpeed: { history: '[]HostSample' },
  HostState: { cache: 'CacheStats', endpoint: 'HostEndpoint', engine: 'HostEngineState', engines: '[]HostEngineState', memory: 'MemoryLedger', power: 'HostPowerState', pressure: 'HostPressureState', requests: '[]HostRequest', reuse: 'HostReuse', speed: 'HostSpeed' },
  HostSuggestion: { need: 'HostNeedParts' },
  HostWhatIf: { formats: '[]HostWhatIfFormat' },
  HostWhatIfFormat: { memory: 'MemoryLedger', need: 'HostNeedParts' },
  HubModel: { need: 'HostNeedParts', tags: '[]' },
  HubRepository: { error: 'HostError', files: '[]HubFile' },
  HubSearch: { models: '[]HubModel' },
  HubSuggestions: { suggestions: '[]HostSuggestion' },
  ImportItem: { error: 'HostError' },
  ImportPlan: { items: '[]ImportItem' },
  ImportRequest: { packing: 'ImporterPacking' },
  Job: { error: 'HostError', training: 'TrainStatus' },
  JobList: { jobs: '[]Job' },
  LogLines: { lines: '[]LogsLine' },
  Machine: { models: '[]MachineModel', usedModels: '[]' },
  MachineList: { machines: '[]Machine' },
  MemoryLedger: { segments: '[]MemorySegment' },
  ModelSettings: { readOnly: '[]', settings: 'SettingsModel' },
  ModelsEvent: { changes: '[]HostModelChange' },
  NewAPIKey: { key: 'APIKey' },
  Sharing: { addresses: '[]', code: 'PairingCode', findProblem: 'HostError', found: '[]FoundMachine', problem: 'HostError', readOnly: '[]', users: '[]PairedMachine' },
  StoredDeleted: { left: '[]' },
  StoredItem: { paths: '[]' },
  StoredList: { items: '[]StoredItem' },
  TrainLosses: { train: '[]TrainLoss', valid: '[]TrainLoss' },
  TrainingMemory: { error: 'HostError' },
  TrainingPlan: { dataError: 'HostError', faults: '[]TrainingFault', memory: 'TrainingMemory', python: 'TrainingPython', sets: '[]TrainingSet' },
  TrainingPython: { error: 'HostError' },
  TrainingSet: { shown: '[]' },
  UpdateStatus: { error: 'HostError' },
  WiredStatus: { commands: 'WiredCommands' },
};
