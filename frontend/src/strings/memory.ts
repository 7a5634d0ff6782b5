// The Memory page.
import { commandKey } from '../lib/host';
import type { Text } from './text';

const systemMonitor = commandKey === '⌘' ? 'Activity Monitor' : 'the system monitor';

export const memory = {
  title: 'Memory',
};

export const ledgerCard = {
  title: 'Memory use',
  availableHelp:
    'Memory available for another model: free memory less a reserve for the system and other apps.',
  available: (totalBytes: Text) => `available for a model, of ${totalBytes}`,
  part: 'Part',
  size: 'Size',
  sizeHelp: `GB of 2^30 bytes, as ${systemMonitor} counts.`,
  share: 'Share',
  description: 'What it is',
  source: 'Source',
  total: 'All',
  totalShare: '100 %',
  totalSource: 'Reported by the system',
  diskCache: (bytes: Text) => `The disk cache holds another ${bytes}.`,
};

export const pressureNotice = {
  warning: 'Memory is short',
  critical: 'Memory is very short',
  swap: (bytes: Text) => `The system has moved ${bytes} to swap, which is much slower than memory.`,
  noSwap: 'The system reports that programs wait for memory.',
  freed: (bytes: Text) => `Headroom has returned ${bytes} of cached conversations.`,
  unloadOne: 'Unload a model to free more, or close other apps:',
  closeApps: 'Close other apps: no model is loaded.',
  frees: (name: Text, bytes: Text) => `${name} would free ${bytes}`,
  busy: ', but it is answering',
  pinned: ', but it is pinned',
  unload: 'Unload',
  unloadModel: (name: Text) => `Unload ${name}`,
};

export const pressureLine = {
  label: 'Memory pressure',
  help: `How short memory is, as ${systemMonitor} shows it. The system reports it.`,
  levels: { '': 'not reported', normal: 'normal', warning: 'short', critical: 'very short' },
  swap: 'Swap',
  swapHelp: 'Memory that the system has moved to disk. The system reports it.',
  used: (usedBytes: Text, totalBytes: Text) => `${usedBytes} of ${totalBytes}`,
  noSwap: 'none',
};

export const whatIfCard = {
  title: 'What if',
  model: 'Model',
  context: 'Context',
  contextHelp: 'Context: the tokens that the model can see at once, prompt and answer together.',
  streams: 'Concurrent requests',
  streamsHelp: 'Requests that run at once, each with its own context.',
  concurrent: (streams: Text) => `${streams} concurrent`,
  needs: (needBytes: Text, room: Text) => `Needs ~${needBytes}, ${room}:`,
  verdicts: { yes: 'fits', tight: 'tight fit', no: 'does not fit' },
  longestContext: (tokens: Text) => `Longest context that fits: ${tokens}.`,
  noContextFits: 'No context fits.',
  estimated: 'Estimated before loading.',
  full: (streams: Text, fullBytes: Text) =>
    `If all ${streams} requests had a full context: ~${fullBytes}. The cache grows to that only ` +
    'while memory is free.',
  format: 'Keys and values',
  current: (format: Text) => `${format} (current)`,
  perThousandTokens: 'Per 1,000 tokens',
  need: 'Needs',
  fits: 'Fits',
  longest: 'Longest context that fits',
  none: 'none',
  all: (tokens: Text) => `all ${tokens}`,
  save: (name: Text) => `Save for ${name}`,
  savedReload: 'Saved. Applies when the model is reloaded.',
  savedStart: 'Saved. Applies when the model is started.',
};

export const wiredCard = {
  title: 'Wired limit',
  help:
    'How much memory macOS lets the GPU use. A model that needs more does not run on the ' +
    'GPU, even if memory is free.',
  current: 'Current',
  setBySysctl: (setBytes: Text) => `${setBytes}, set by iogpu.wired_limit_mb`,
  systemDefault: 'the system’s default',
  metalRecommends: 'Metal recommends',
  atMost: (recommendedBytes: Text) => `at most ${recommendedBytes}`,
  metalUnknown: 'unknown: Metal did not answer',
  safe: 'Safe on this Mac',
  safeValue: (safeBytes: Text) => `${safeBytes}, which leaves enough for the system and other apps`,
  afterRestart: 'After a restart',
  setAgain: (keptBytes: Text) => `${keptBytes} is set again`,
  withinLimit: (name: Text, needBytes: Text) =>
    `${name} needs ~${needBytes}, which is within the limit.`,
  overLimit: (name: Text, needBytes: Text, safeBytes: Text) =>
    `${name} needs ~${needBytes}, more than the limit. ${safeBytes} is safe and enough.`,
  overSafe: (name: Text, needBytes: Text) =>
    `${name} needs ~${needBytes}, more than is safe on this Mac. A shorter context, fewer ` +
    'concurrent requests or a stronger quantization would help.',
  limit: 'Limit, GB',
  outOfRange: (leastBytes: Text, mostBytes: Text) =>
    `Enter a size from ${leastBytes} to ${mostBytes}.`,
  waitingForAdmin: 'macOS is asking for an administrator.',
  once: 'Apply until restart…',
  onceQuestion: 'Change the wired limit?',
  onceText: (bytes: Text) =>
    `${bytes}, until the next restart. macOS asks for an administrator, then runs this:`,
  permanent: 'Apply permanently…',
  permanentQuestion: 'Change the wired limit permanently?',
  permanentText: (bytes: Text) =>
    `${bytes}, now and after each restart. macOS asks for an administrator, then runs this:`,
  change: 'Change',
  restore: 'Restore default…',
  restoreQuestion: 'Restore the default wired limit?',
  restoreText:
    'The system default applies now and after restarts. macOS asks for an administrator, ' +
    'then runs this:',
  restoreEarlier: (bytes: Text) => `Restore ${bytes}…`,
  earlierQuestion: 'Restore the earlier wired limit?',
  earlierText: (bytes: Text) =>
    `${bytes} applied before Headroom changed the limit. macOS asks for an administrator, then ` +
    'runs this:',
  restoreNow: 'Restore',
};
