import type { Text } from './text';

export const endpointCard = {
  tools: 'Tools',
  example: (label: Text) => `${label} example`,
  settings: (label: Text) => `settings for ${label}`,
  endpoint: 'Endpoint',
  baseUrlAnyOpenai: 'Base URL for any OpenAI client',
  endpointAddress: 'endpoint address',
  example2: 'Example',
  tool: 'Tool',
  documentation: 'Documentation',
};

export const headroomBar = {
  gbBytesSystemMonitor: 'GB of 2^30 bytes, as the system monitor counts.',
  of: (label: Text, segment: Text, part: Text, totalBytes: Text, meaning: Text, source: Text) =>
    `${label}: ${segment}, ${part} of ${totalBytes}. ${meaning} ${source}`,
  headroom: 'Headroom',
  newModelCouldTake: (unit: Text) => `Memory available for a new model now. ${unit}`,
  roomModel: (totalBytes: Text) => `available for a model, of ${totalBytes}`,
  wiredLimitMuchGraphics: 'Wired limit: how much memory macOS lets the GPU use.',
  wiredLimit: 'Wired limit',
};

export const requestList = {
  waiting: 'Waiting',
  readingPrompt: 'Reading the prompt',
  answering: 'Answering',
  requests: 'Requests',
  flight: (requests: Text) => `${requests} in flight`,
  promptRead: 'Prefill',
  read: (promptDoneTokens: Text, promptTokens: Text) =>
    `${promptDoneTokens} of ${promptTokens} read`,
  promptKeptEarlierRequests: (cachedTokens: Text) =>
    `${cachedTokens} of the prompt were reused from earlier requests. Measured.`,
  cached: (promptTokens: Text) => `${promptTokens} cached`,
  cancel: 'Cancel',
  noneAnyProgramSpeaks: 'No active requests. Point any OpenAI-compatible app at the address above.',
  noneEngineStopped: 'No active requests. The engine is stopped.',
};

export const speedCard = {
  tokensWrittenSecond: 'Decode speed',
  promptTokensReadSecond: 'Prefill speed',
  memoryHeldHeadroom: 'Memory used by Headroom',
  speedMemory: 'Speed and memory',
  speed: 'Speed',
  tokensWrittenSecondAll:
    'Decode: tokens per second of all requests together, measured over the last seconds.',
  tokS: 'tok/s',
  prefillPromptTokensRead:
    'Prefill: prompt tokens per second, measured over the last seconds. The right axis is ' +
    'its scale.',
  reading: (prefillTokensPerSecond: Text) => `prefill ${prefillTokensPerSecond}`,
  memory: 'Memory',
  headroomItselfHoldsModel:
    'The memory of Headroom and its model, measured. GB of 2^30 bytes, as the system monitor ' +
    'counts.',
  heldHeadroom: 'used by Headroom',
};

export const stateLine = {
  of: (progress: Text, sizeBytes: Text) => `${progress} of ${sizeBytes}`,
  partModelFilesBeen: 'The part of the model files that has been read. GB of 10^9 bytes.',
  notMemoryNextRequest: 'Unloaded; the next request loads it again',
  nobodyUsedTimeSet: 'The model was idle for the time set in Settings.',
  computesHeadroomFound: 'The device that runs the model.',
  tokensContext: (contextTokens: Text) => `${contextTokens} tokens of context`,
  contextMuchModelCan:
    'Context: the tokens that the model can see at once, prompt and answer together.',
  cache: (cacheFormat: Text) => `${cacheFormat} cache`,
  eachNumberKvCache: (cacheFormat: Text) =>
    `${cacheFormat}: the format of the KV cache. KV cache: keys and values of tokens already ` +
    'processed, kept so that they are not computed again.',
  state: (stateFormat: Text) => `${stateFormat} state`,
  fixedSizeMemoryRecurrent: 'The format of the fixed-size state of recurrent layers.',
  cannotUsed: (name: Text) => `${name}, unsupported or damaged`,
  needsFree: (name: Text, need: Text, headroomBytes: Text) =>
    `${name}, needs ${need}, ${headroomBytes} available`,
  engine: 'Engine',
  noModelMemory: 'No model is loaded.',
  stopEngine: 'Stop the engine',
  startEngine: 'Start the engine',
  loadingModel: 'Loading the model',
  model: 'Model',
  noModelFound: 'No model found',
  estimatedBeforeLoadingWeights:
    'Estimated before loading: weights, cache and scratch. Memory in GB of 2^30 bytes, as ' +
    'the system monitor counts.',
  tight: ', tight',
  needsAvailable: (needBytes: Text, headroomBytes: Text, suffix: Text) =>
    `needs ~${needBytes}, ${headroomBytes} available${suffix}`,
  tryAgain: 'Try again',
};
