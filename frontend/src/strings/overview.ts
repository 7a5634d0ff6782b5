import type { Text } from './text';

export const endpointCard = {
  tools: 'Tools',
  example: (label: Text) => `${label} example`,
  settings: (label: Text) => `settings for ${label}`,
  endpoint: 'Endpoint',
  baseUrlAnyOpenai: 'the base URL for any OpenAI client',
  endpointAddress: 'endpoint address',
  example2: 'Example',
  tool: 'Tool',
  documentation: 'Its documentation',
};

export const headroomBar = {
  gbBytesSystemMonitor: 'GB of 2^30 bytes, as the system monitor counts.',
  of: (label: Text, segment: Text, part: Text, totalBytes: Text, meaning: Text, source: Text) =>
    `${label}: ${segment}, ${part} of ${totalBytes}. ${meaning} ${source}`,
  headroom: 'Headroom',
  newModelCouldTake: (unit: Text) => `What a new model could take now. ${unit}`,
  roomModel: (totalBytes: Text) => `room for a model, of ${totalBytes}`,
  wiredLimitMuchGraphics: 'Wired limit: how much the graphics processor may keep in place.',
  wiredLimit: 'Wired limit',
};

export const requestList = {
  waiting: 'Waiting',
  readingPrompt: 'Reading the prompt',
  answering: 'Answering',
  requests: 'Requests',
  flight: (requests: Text) => `${requests} in flight`,
  promptRead: 'Prompt read',
  read: (promptDoneTokens: Text, promptTokens: Text) =>
    `${promptDoneTokens} of ${promptTokens} read`,
  promptKeptEarlierRequests: (cachedTokens: Text) =>
    `${cachedTokens} of the prompt were kept from earlier requests and not read again. Measured.`,
  cached: (promptTokens: Text) => `${promptTokens} cached`,
  cancel: 'Cancel',
  noneAnyProgramSpeaks:
    'None. Any program that speaks the OpenAI API can send one to the address above.',
  noneEngineStopped: 'None. The engine is stopped.',
};

export const speedCard = {
  tokensWrittenSecond: 'Tokens written a second',
  promptTokensReadSecond: 'Prompt tokens read a second',
  memoryHeldHeadroom: 'Memory held by Headroom',
  speedMemory: 'Speed and memory',
  speed: 'Speed',
  tokensWrittenSecondAll:
    'Tokens written a second by all requests together, measured over the last seconds.',
  tokS: 'tok/s',
  prefillPromptTokensRead:
    'Prefill: prompt tokens read a second, measured over the last seconds. It has a scale of its own, at the right.',
  reading: (prefillTokensPerSecond: Text) => `reading ${prefillTokensPerSecond}`,
  memory: 'Memory',
  headroomItselfHoldsModel:
    'What Headroom itself holds, model included, measured. GB of 2^30 bytes, as the system monitor counts.',
  heldHeadroom: 'held by Headroom',
};

export const stateLine = {
  of: (progress: Text, sizeBytes: Text) => `${progress} of ${sizeBytes}`,
  partModelFilesBeen: 'The part of the model files that has been read. GB of 10^9 bytes.',
  notMemoryNextRequest: 'Not in memory; the next request loads it again',
  nobodyUsedTimeSet: 'Nobody used it for the time that is set under Settings.',
  computesHeadroomFound: 'What computes, as Headroom found it.',
  tokensContext: (contextTokens: Text) => `${contextTokens} tokens of context`,
  contextMuchModelCan:
    'Context: how much the model can look at in one go, prompt and answer together.',
  cache: (cacheFormat: Text) => `${cacheFormat} cache`,
  eachNumberKvCache: (cacheFormat: Text) =>
    `${cacheFormat}: how each number of the KV cache is stored. KV cache: what the model has already read, kept so that it need not read it again.`,
  state: (stateFormat: Text) => `${stateFormat} state`,
  fixedSizeMemoryRecurrent: 'How the fixed-size memory of recurrent layers is stored.',
  cannotUsed: (name: Text) => `${name}, cannot be used`,
  needsFree: (name: Text, need: Text, headroomBytes: Text) =>
    `${name}, needs ${need}, ${headroomBytes} free`,
  engine: 'Engine',
  noModelMemory: 'No model is in memory.',
  stopEngine: 'Stop the engine',
  startEngine: 'Start the engine',
  loadingModel: 'Loading the model',
  model: 'Model',
  noModelFound: 'No model found',
  estimatedBeforeLoadingWeights:
    'Estimated before loading: weights, cache and scratch. Memory in GB of 2^30 bytes, as the system monitor counts.',
  tight: ', tight',
  needsFree2: (needBytes: Text, headroomBytes: Text, suffix: Text) =>
    `needs ~${needBytes}, ${headroomBytes} free${suffix}`,
  tryAgain: 'Try again',
};
