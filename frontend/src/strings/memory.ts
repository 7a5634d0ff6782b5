import type { Text } from './text';

export const memory = {
  memory: 'Memory',
};

export const ledgerCard = {
  prefixCacheMemoryReserved: (untouchedBytes: Text) =>
    `The prefix cache in memory. ${untouchedBytes} of this is reserved but not used yet.`,
  prefixCacheMemory: 'The prefix cache in memory.',
  fillsMemory: 'What fills the memory',
  newModelCouldTake:
    'Memory available for another model: free memory less a reserve for the system and other apps.',
  roomModel: (totalBytes: Text) => `available for a model, of ${totalBytes}`,
  part: 'Part',
  gbBytesSystemMonitor: 'GB of 2^30 bytes, as the system monitor counts.',
  size: 'Size',
  share: 'Share',
  whatItIs: 'What it is',
  number: 'Source',
  all: 'All',
  besideCacheDiskKeeps: (bytes: Text) => `The disk cache holds another ${bytes}.`,
  reportedSystem: 'Reported by the system',
};

export const whatIfCard = {
  fitsTight: 'tight fit',
  doesNotFit: 'does not fit',
  all: (largestContextTokens: Text) => `all ${largestContextTokens}`,
  keptHoldsWhenModel: 'Saved. Applies when the model is reloaded.',
  keptHoldsWhenModel2: 'Saved. Applies when the model is started.',
  ifLabel: 'What if',
  model: 'Model',
  contextMuchModelCan:
    'Context: the tokens that the model can see at once, prompt and answer together.',
  context: 'Context',
  requestsRunOnceEach: 'Requests that run at once, each with its own context.',
  streams: 'Streams',
  concurrent: (streams: Text) => `${streams} concurrent`,
  needsFree: (needBytes: Text, roomBytes: Text) => `Needs ~${needBytes}, ${roomBytes} available:`,
  each: ' each',
  longestFits: (largestContextTokens: Text, suffix: Text) =>
    `Longest context that fits: ${largestContextTokens}${suffix}.`,
  noContextFits: 'No context fits.',
  weightsKeysValuesState: (
    weightsBytes: Text,
    kvBytes: Text,
    stateBytes: Text,
    scratchBytes: Text,
  ) =>
    `Weights ${weightsBytes}, keys and values ${kvBytes}, state ${stateBytes}, scratch ` +
    `${scratchBytes}. Estimated before loading, with every stream at its full length.`,
  keysValues: 'Keys and values',
  thousandTokens: 'Per 1,000 tokens',
  needs: 'Needs',
  fits: 'Fits',
  longestFits2: 'Longest context that fits',
  set: ' (current)',
  keep: (name: Text) => `Save for ${name}`,
};

export const wiredCard = {
  needs: (name: Text, needBytes: Text) => `${name} needs ~${needBytes}`,
  withinLimitNothingNeeds: (need: Text) => `${need}, which is within the limit.`,
  moreLimitSafeEnough: (need: Text, safeBytes: Text) =>
    `${need}, more than the limit. ${safeBytes} is safe and enough.`,
  moreSafeMacShorter: (need: Text) =>
    `${need}, more than is safe on this Mac. A shorter context, fewer streams or a stronger ` +
    'quantization would help.',
  changeWiredLimit: 'Change the wired limit?',
  untilNextRestartMacos: (requestedBytes: Text) =>
    `${requestedBytes}, until the next restart. macOS asks for an administrator, then runs this:`,
  change: 'Change',
  keepWiredLimit: 'Change the wired limit permanently?',
  nowAfterEachRestart: (requestedBytes: Text) =>
    `${requestedBytes}, now and after each restart. macOS asks for an administrator, then runs this:`,
  keep: 'Change',
  undoWiredLimit: 'Restore the default wired limit?',
  backDefaultSystemNow:
    'The system default applies now and after restarts. macOS asks for an administrator, ' +
    'then runs this:',
  undo: 'Restore',
  typeSize: (minBytes: Text, maxBytes: Text) => `Type a size from ${minBytes} to ${maxBytes}.`,
  wiredLimit: 'Wired limit',
  everythingElsePageHolds: (unavailableReason: Text) => `${unavailableReason}`,
  muchMemoryGraphicsProcessor:
    'How much memory macOS lets the GPU use. A model that needs more does not run on the ' +
    'GPU, even if memory is free.',
  holdsNow: 'Current',
  setIogpuWiredLimit: (limitBytes: Text) => `${limitBytes}, set by iogpu.wired_limit_mb`,
  systemsDefault: "the system's default",
  metalRecommends: 'Metal recommends',
  most: (recommendedBytes: Text) => `at most ${recommendedBytes}`,
  nothingDidNotAnswer: 'unknown: Metal did not answer',
  safeMac: 'Safe on this Mac',
  leavesSystemOtherApps: (safeBytes: Text) =>
    `${safeBytes}, which leaves enough for the system and other apps`,
  afterRestart: 'After a restart',
  setAgain: (persistedBytes: Text) => `${persistedBytes} is set again`,
  limitGb: 'Limit, GB',
  applyUntilRestart: 'Apply until restart…',
  keepOverRestarts: 'Apply permanently…',
  undo2: 'Restore default…',
  macosAskingAdministrator: 'macOS is asking for an administrator.',
};
