import type { Text } from './text';

export const memory = {
  memory: 'Memory',
};

export const ledgerCard = {
  prefixCacheMemoryReserved: (untouchedBytes: Text) =>
    `The prefix cache in memory. Of it ${untouchedBytes} are reserved and not used yet.`,
  prefixCacheMemory: 'The prefix cache in memory.',
  fillsMemory: 'What fills the memory',
  newModelCouldTake:
    'What a new model could take beside what runs: what is free, less a reserve for the system and other apps.',
  roomModel: (totalBytes: Text) => `room for a model, of ${totalBytes}`,
  part: 'Part',
  gbBytesSystemMonitor: 'GB of 2^30 bytes, as the system monitor counts.',
  size: 'Size',
  share: 'Share',
  whatItIs: 'What it is',
  number: 'Number from',
  all: 'All',
  besideCacheDiskKeeps: (bytes: Text) => `Beside it, the cache on disk keeps ${bytes}.`,
  reportedSystem: 'Reported by the system',
};

export const whatIfCard = {
  fitsTight: 'fits, tight',
  doesNotFit: 'does not fit',
  all: (largestContextTokens: Text) => `all ${largestContextTokens}`,
  keptHoldsWhenModel: 'Kept. Holds when the model is started again.',
  keptHoldsWhenModel2: 'Kept. Holds when the model is started.',
  ifLabel: 'What if',
  model: 'Model',
  contextMuchModelCan:
    'Context: how much the model can look at in one go, prompt and answer together.',
  context: 'Context',
  requestsRunOnceEach: 'Requests that run at once, each with a context of its own.',
  streams: 'Streams',
  once: (atOnce: Text) => `${atOnce} at once`,
  needsFree: (needBytes: Text, roomBytes: Text) => `Needs ~${needBytes}, ${roomBytes} free:`,
  each: ' each',
  longestFits: (largestContextTokens: Text, suffix: Text) =>
    `Longest that fits: ${largestContextTokens}${suffix}.`,
  noContextFits: 'No context fits.',
  weightsKeysValuesState: (
    weightsBytes: Text,
    kvBytes: Text,
    stateBytes: Text,
    scratchBytes: Text,
  ) =>
    `Weights ${weightsBytes}, keys and values ${kvBytes}, state ${stateBytes}, scratch ${scratchBytes}. Estimated before loading, with every stream at its full length.`,
  keysValues: 'Keys and values',
  thousandTokens: 'A thousand tokens',
  needs: 'Needs',
  fits: 'Fits',
  longestFits2: 'Longest that fits',
  set: ', as it is set',
  keep: (name: Text) => `Keep for ${name}`,
};

export const wiredCard = {
  needs: (name: Text, needBytes: Text) => `${name} needs ~${needBytes}`,
  withinLimitNothingNeeds: (need: Text) =>
    `${need}, which is within the limit: nothing needs to be changed.`,
  moreLimitSafeEnough: (need: Text, safeBytes: Text) =>
    `${need}, more than the limit. ${safeBytes} is safe and enough.`,
  moreSafeMacShorter: (need: Text) =>
    `${need}, more than is safe on this Mac. A shorter context, fewer streams or a stronger quantization would help.`,
  changeWiredLimit: 'Change the wired limit?',
  untilNextRestartMacos: (askedBytes: Text) =>
    `${askedBytes}, until the next restart. macOS asks for an administrator, then runs this:`,
  change: 'Change',
  keepWiredLimit: 'Keep the wired limit?',
  nowAfterEachRestart: (askedBytes: Text) =>
    `${askedBytes}, now and after each restart. macOS asks for an administrator, then runs this:`,
  keep: 'Keep',
  undoWiredLimit: 'Undo the wired limit?',
  backDefaultSystemNow:
    'Back to the default of the system, now and after restarts. macOS asks for an administrator, then runs this:',
  undo: 'Undo',
  typeSize: (leastBytes: Text, mostBytes: Text) =>
    `Type a size from ${leastBytes} to ${mostBytes}.`,
  wiredLimit: 'Wired limit',
  everythingElsePageHolds: (inapplicable: Text) =>
    `${inapplicable} Everything else on this page holds here too.`,
  muchMemoryGraphicsProcessor:
    'How much memory the graphics processor may keep in place. macOS chooses it; a model that needs more does not run on the GPU, although there may be memory left.',
  holdsNow: 'Holds now',
  setIogpuWiredLimit: (setBytes: Text) => `${setBytes}, set by iogpu.wired_limit_mb`,
  systemsDefault: "the system's default",
  metalRecommends: 'Metal recommends',
  most: (recommendedBytes: Text) => `at most ${recommendedBytes}`,
  nothingDidNotAnswer: 'nothing: it did not answer',
  safeMac: 'Safe on this Mac',
  leavesSystemOtherApps: (safeBytes: Text) =>
    `${safeBytes}, which leaves the system and other apps what they need`,
  afterRestart: 'After a restart',
  setAgain: (keptBytes: Text) => `${keptBytes} is set again`,
  limitGb: 'Limit, GB',
  applyUntilRestart: 'Apply until restart…',
  keepOverRestarts: 'Keep over restarts…',
  undo2: 'Undo…',
  macosAskingAdministrator: 'macOS is asking for an administrator.',
};
