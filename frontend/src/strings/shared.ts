// The frame of all pages, and the components that several pages share.
import type { Text } from './text';

/** How Headroom's own pages call themselves as a client of the endpoint. */
export const clientName = 'Headroom';

export const app = {
  dropToImport: 'Drop a model folder to import it',
  windowTitle: (page: Text) => `${page} – Headroom`,
  dropOnChat: 'Drop files to attach them, or a model to import it',
};

export const sidebar = {
  label: 'Pages',
  pageKey: (page: Text, key: Text) => `${page} (${key})`,
  connectionLost: 'Connection lost',
  notConnected: 'Not connected',
  free: (bytes: Text) => `${bytes} free`,
};

export const requests = {
  key: (name: Text) => `key ${name}`,
};

/** What is under way, below the pages. */
export const sidebarJobs = {
  import: (name: Text) => `Importing ${name}`,
  download: (name: Text) => `Downloading ${name}`,
  cache: () => 'Moving the cache',
  training: (name: Text) => `Training ${name}`,
  several: (jobs: Text) => `${jobs} transfers`,
  label: (title: Text, share: Text) => `${title}${share && `, ${share}`}`,
};

/** The memory for a model. Other models may have to be unloaded for it. */
export const room = {
  available: (bytes: Text) => `${bytes} available`,
  availableAfter: (bytes: Text, models: Text) => `${bytes} available after unloading ${models}`,
  models: (count: Text) => `${count} models`,
};

export const engineStates = {
  stopped: 'Stopped',
  loading: 'Loading',
  ready: 'Ready',
  busy: 'Busy',
  failed: 'Failed',
  unloaded: 'Unloaded',
};

export const unauthorized = {
  title: 'This page is not connected to Headroom',
  open: 'Open Headroom from the menu bar, or use the address that',
  command: 'headroom serve',
  printed: 'printed, with the token at its end.',
};

export const connectionBanner = {
  title: 'Connection lost.',
  text: 'Headroom does not answer. If you quit it, start it again; this page reconnects by itself.',
  nextTry: (duration: Text) => `Next try in ${duration}`,
  trying: 'Trying',
  tryNow: 'Try now',
};

export const confirm = {
  cancel: 'Cancel',
};

export const copyButton = {
  copy: 'Copy',
  copied: 'Copied',
  notCopied: 'Not copied',
  label: (state: Text, what: Text) => `${state}: ${what}`,
};

export const errorCard = {
  details: 'Details',
  dismiss: 'Dismiss',
};

export const sheet = {
  close: 'Close',
};

export const palette = {
  title: 'Commands',
  command: 'Command',
  placeholder: 'Pages, models, actions',
  noMatch: 'No results.',
  groups: { page: 'Page', action: 'Action', model: 'Model' },
  window: {
    'new-chat': 'New chat',
    'new-private-chat': 'New private chat',
    download: 'Download a model…',
    import: 'Import a model…',
    'clear-cache': 'Clear the cache (forget prompts)…',
    'zoom-in': 'Zoom in',
    'zoom-out': 'Zoom out',
    'zoom-reset': 'Actual size',
  },
  wired: 'Wired limit',
  whatIf: 'What if: another context or model',
  port: 'Port of the endpoint',
  login: 'Start at login',
  speed: 'Speed and memory over time',
  /** Other words for what a person looks for. */
  words: {
    report: 'error crash problem issue feedback',
    updates: 'version upgrade newest',
    speed: 'fast slow tokens second chart performance',
  },
  startEngine: 'Start the engine',
  stopEngine: 'Stop the engine',
  copyEndpoint: 'Copy the endpoint’s address',
  appearance: {
    system: 'Appearance: system',
    light: 'Appearance: light',
    dark: 'Appearance: dark',
  },
  startModel: (name: Text) => `Start ${name}`,
};

/** The label and the explanation of each part of the memory bar, for tooltips and tables. */
export const segments = {
  weights: { label: 'Weights', meaning: 'The model itself, as loaded from its files.' },
  kv_used: {
    label: 'KV in use',
    meaning: 'KV cache of the running requests: keys and values of the tokens processed so far.',
  },
  kv_cached: {
    label: 'KV cached',
    meaning: 'KV cache of earlier requests, so that a prompt prefix need not be computed again.',
  },
  state: {
    label: 'Recurrent state',
    meaning: 'The fixed-size memory of layers that do not keep every token.',
  },
  scratch: { label: 'Scratch', meaning: 'Intermediate results of one step.' },
  reserved: {
    label: 'Reserved, not used',
    meaning:
      'Promised to the loaded models for the longest request that runs, or a short one at rest. ' +
      'Other apps can use it until then.',
  },
  headroom: { label: 'Headroom itself', meaning: 'Server, menu bar and window.' },
  other: { label: 'Other apps', meaning: 'Everything else on this computer, the system included.' },
  free: { label: 'Free', meaning: 'Available at once, without closing anything.' },
};

/** Where a figure comes from. */
export const sources = {
  measured: 'Measured by Headroom.',
  reported: 'Reported by the system.',
  estimated: 'Estimated.',
};

export const memoryBar = {
  wiredLimit: (bytes: Text) => `Wired limit, ${bytes}: how much memory macOS lets the GPU use.`,
  recommended: (bytes: Text) => `Metal recommends at most ${bytes}.`,
  end: (bytes: Text) => `All the memory there is, ${bytes}.`,
  segment: (label: Text, bytes: Text, share: Text, totalBytes: Text, meaning: Text, source: Text) =>
    `${label}: ${bytes}, ${share} of ${totalBytes}. ${meaning} ${source}`,
};

export const timeChart = {
  ago: (duration: Text) => `${duration} ago`,
  start: '10 min ago',
  now: 'now',
};

export const samplingFields = {
  random: 'Random',
  automatic: 'Automatic',
  number: (range: Text) => `A number, ${range}.`,
  wholeNumber: (range: Text) => `A whole number, ${range}.`,
  atLeast: (least: Text) => `at least ${least}`,
  fromTo: (least: Text, most: Text) => `${least} to ${most}`,
};

/** The sampling values of a request. */
export const sampling = {
  temperature: {
    label: 'Temperature',
    help: '0 always takes the likeliest token, 1 draws by probability.',
  },
  topP: {
    label: 'Top-p',
    help: 'Only the likeliest tokens that reach this probability together; 1: all.',
  },
  topK: { label: 'Top-k', help: 'Only so many of the likeliest tokens; 0: all.' },
  minP: {
    label: 'Min-p',
    help: 'Only tokens at least this likely, compared with the likeliest; 0: all.',
  },
  repetitionPenalty: {
    label: 'Repetition penalty',
    help: 'Over 1 makes recent tokens less likely; 1: off.',
  },
  presencePenalty: {
    label: 'Presence penalty',
    help: 'Makes recent tokens less likely, once each; 0: off.',
  },
  frequencyPenalty: {
    label: 'Frequency penalty',
    help: 'Makes recent tokens less likely, in proportion to their count; 0: off.',
  },
  seed: { label: 'Seed', help: 'The same number gives the same answer to the same question.' },
  maxTokens: {
    label: 'Maximum tokens',
    help: 'Of the answer, reasoning included. Empty: what the context leaves.',
  },
};
