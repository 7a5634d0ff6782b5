// The Overview page.
import { commandKey } from '../lib/host';
import type { Text } from './text';

const systemMonitor = commandKey === '⌘' ? 'Activity Monitor' : 'the system monitor';

export const overview = {
  title: 'Overview',
};

export const stateLine = {
  engine: 'Engine',
  model: 'Model',
  running: (name: Text) => `, ${name}`,
  loaded: (progress: Text, sizeBytes: Text) => `${progress} of ${sizeBytes}`,
  loadedHelp: 'The part of the model files that has been read. GB of 10^9 bytes.',
  unloaded: 'Unloaded; the next request loads it again',
  unloadedHelp: 'It was idle for the time set in Settings, or another model needed its memory.',
  loadingAgain: 'Loading again',
  loadingAgainIn: (duration: Text) => `Loading again in ${duration}`,
  loadingAgainHelp:
    'Headroom loads the model again by itself. After each failure it waits longer, up to ' +
    '16 minutes.',
  deviceHelp: 'The device that runs the model.',
  context: (contextTokens: Text) => `${contextTokens} tokens of context`,
  contextHelp: 'Context: the tokens that the model can see at once, prompt and answer together.',
  cache: (cacheFormat: Text) => `${cacheFormat} cache`,
  bits: (keys: Text, values: Text) => `${keys}-bit keys, ${values}-bit values`,
  bitsOfBoth: (bits: Text) => `${bits}-bit keys and values`,
  cacheHelp: (cacheFormat: Text) =>
    `${cacheFormat}: the format of the KV cache. KV cache: keys and values of tokens already ` +
    'processed, kept so that they are not computed again.',
  state: (stateFormat: Text) => `${stateFormat} state`,
  stateHelp: 'The format of the fixed-size state of recurrent layers.',
  drafter: { mtp: 'MTP', draft: 'Draft model', dflash: 'DFlash' },
  drafterHelp: (draftModel: Text) =>
    `Tokens are decoded ahead where that is faster${draftModel && `, with ${draftModel}`}.`,
  lookup: 'Lookup',
  gained: (drafter: Text, gained: Text) => `${drafter}, ${gained}`,
  gainedHelp: (gained: Text) =>
    `Since the model was loaded, answers were decoded about ${gained} as fast as without drafts. ` +
    'Estimated from the measured times of passes.',
  noDrafts: (drafter: Text) => `${drafter}, no drafts lately`,
  draftModelUnused: 'Draft model not used',
  draftModelUnusedHelp: (why: Text) => `The draft model in the model’s settings: ${why}.`,
  noModelLoaded: 'No model is loaded.',
  noModelFound: 'No model found',
  unusable: (name: Text) => `${name}, unsupported or damaged`,
  tooLarge: (name: Text, needBytes: Text, availableBytes: Text) =>
    `${name}, needs ${needBytes}, ${availableBytes} available`,
  withSize: (name: Text, sizeBytes: Text) => `${name}, ${sizeBytes}`,
  needs: (needBytes: Text, availableBytes: Text) =>
    `needs ~${needBytes}, ${availableBytes} available`,
  needsTight: (needBytes: Text, availableBytes: Text) =>
    `needs ~${needBytes}, ${availableBytes} available, tight`,
  needsHelp:
    'Estimated before loading: weights, one conversation and scratch. ' +
    'Memory in GB of 2^30 bytes, as ' +
    `${systemMonitor} counts.`,
  start: 'Start the engine',
  stop: 'Stop the engine',
  tryAgain: 'Try again',
  tryNow: 'Try now',
  stopTrying: 'Stop trying',
};

export const loadedModels = {
  title: 'Models',
  memoryHelp: 'The memory that its engine uses, measured. GB of 2^30 bytes.',
  memoryAndReserved: (reservedBytes: Text) =>
    `The memory that its engine uses, measured. ${reservedBytes} more is reserved, not used. ` +
    'GB of 2^30 bytes.',
  pinned: 'Kept loaded',
  requested: 'Loaded by a request',
  requests: (requests: Text) => `${requests} active`,
  stop: 'Stop',
  stopModel: (name: Text) => `Stop ${name}`,
};

export const headroomBar = {
  title: 'Headroom',
  availableHelp:
    'Memory available for a model beside those that are loaded: free memory less a reserve for ' +
    'the system and other apps. ' +
    `GB of 2^30 bytes, as ${systemMonitor} counts.`,
  available: (totalBytes: Text) => `available for a model, of ${totalBytes}`,
  wiredLimit: 'Wired limit',
  wiredLimitHelp: 'Wired limit: how much memory macOS lets the GPU use.',
};

export const endpointCard = {
  title: 'Endpoint',
  help: 'Base URL for any OpenAI client',
  address: 'endpoint address',
  tabs: 'Example',
  example: (language: Text) => `${language} example`,
  tools: 'Tools',
  tool: 'Tool',
  setUp: 'Set up agents',
  toolSettings: (tool: Text) => `settings for ${tool}`,
  documentation: (tool: Text) => `${tool}’s documentation`,
};

/** The examples that call the endpoint. */
export const snippets = {
  question: 'What is a KV cache?',
  curl: { label: 'curl', where: 'Paste into a terminal.' },
  python: { label: 'Python', where: 'Paste into python3; nothing to install.' },
  javascript: {
    label: 'JavaScript',
    where: 'Save as a .mjs file and run it with Node 18 or later.',
  },
  go: { label: 'Go', where: 'Save as main.go and run it with: go run main.go' },
};

/** The tools that can use the endpoint, and where their settings go. */
export const tools = {
  claudeCode: { label: 'Claude Code', where: 'Paste into a terminal, in your project’s folder.' },
  codex: { label: 'Codex', where: 'Paste at the beginning of ~/.codex/config.toml.' },
  opencode: {
    label: 'OpenCode',
    where: 'Paste into opencode.json in your project, or ~/.config/opencode/opencode.json.',
  },
  zed: {
    label: 'Zed',
    where:
      'Paste into settings.json (zed: open settings). When Zed asks for a key, enter any word.',
    whereWithKey:
      'Paste into settings.json (zed: open settings). When Zed asks for a key, enter the one ' +
      'set in Headroom.',
  },
  continue: { label: 'Continue', where: 'Paste into ~/.continue/config.yaml.' },
  cline: {
    label: 'Cline',
    where: 'Enter in Cline’s settings, with “OpenAI Compatible” as API provider.',
  },
  aider: { label: 'aider', where: 'Paste into a terminal, in your project’s folder.' },
  qwenCode: { label: 'Qwen Code', where: 'Paste into a terminal, in your project’s folder.' },
  openWebUI: {
    label: 'Open WebUI',
    where:
      'Paste into a terminal where Open WebUI is installed. Inside a container this address is ' +
      'not reachable.',
  },
};

export const requestList = {
  title: 'Requests',
  active: (requests: Text) => `${requests} active`,
  phases: { waiting: 'Waiting', prefill: 'Prefill', decode: 'Answering' },
  waitsForMemory: (lackBytes: Text) => `Waiting for ${lackBytes} of memory`,
  untitled: 'Request',
  phaseAndSender: (phase: Text, duration: Text, sender: Text) => `${phase}, ${duration}, ${sender}`,
  prefillLabel: 'Prefill',
  prefilled: (doneTokens: Text, promptTokens: Text) => `${doneTokens} of ${promptTokens}`,
  cached: (share: Text) => `${share} cached`,
  cachedHelp: (cachedTokens: Text) =>
    `${cachedTokens} of the prompt were reused from earlier requests. Measured.`,
  cancel: 'Cancel',
  empty: 'No active requests. Point any OpenAI-compatible app at the address above.',
  emptyStopped: 'No active requests. The engine is stopped.',
};

export const speedCard = {
  label: 'Speed and memory',
  speed: 'Speed',
  decodeLabel: 'Decode speed',
  decodeHelp: 'Decode: tokens per second of all requests together, measured over the last seconds.',
  decodeUnit: 'tok/s',
  prefillLabel: 'Prefill speed',
  prefill: (speed: Text) => `prefill ${speed}`,
  prefillHelp:
    'Prefill: prompt tokens per second, measured over the last seconds. The right axis is ' +
    'its scale.',
  memory: 'Memory',
  memoryLabel: 'Memory used by Headroom',
  memoryOwner: 'used by Headroom',
  memoryHelp:
    'The memory of Headroom and its model, measured. GB of 2^30 bytes, as ' +
    `${systemMonitor} counts.`,
};
