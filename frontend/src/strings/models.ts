// The Models page.
import { commandKey } from '../lib/host';
import { counted, type Text } from './text';

const fileManager = commandKey === '⌘' ? 'Finder' : 'folder';

export const models = {
  title: 'Models',
  search: 'Search models',
  filter: 'Which models',
  filters: {
    all: 'All',
    fits: 'Fits now',
    incomplete: 'Incomplete',
    unusable: 'Unsupported or damaged',
  },
  context: 'Memory at',
  defaultContext: 'default context',
  tokens: (tokens: Text) => `${tokens} tokens`,
  rescan: 'Rescan',
  showUnusable: (models: Text) => `Show ${models} unsupported or damaged`,
  hideUnusable: (models: Text) => `Hide ${models} unsupported or damaged`,
  import: 'Import…',
  download: 'Download…',
  found: (count: Text, room: Text) => `${counted(count, 'model', 'models')}, ${room}`,
  foundOf: (found: Text, all: Text, room: Text) =>
    `${found} of ${counted(all, 'model', 'models')}, ${room}`,
  watchingPaused: (found: Text) => `${found}. Watching is paused`,
  resumeWatching: 'Resume watching',
  pauseWatching: 'Pause watching',
  tryAgain: 'Try again',
  noMatch: 'No models match.',
  showAll: 'Show all',
  onlyDemo: 'Only the demo model is here',
  watchedFolders:
    'Headroom watches these folders; models in MLX or Hugging Face format (a folder with ' +
    'config.json and .safetensors files) appear as they arrive:',
  orDrop: 'Or drop a folder onto this window.',
};

/** The result of an action, below the search field. */
export const modelsDone = {
  rescanned: 'All model folders were scanned.',
  watchingPaused: 'New models appear after a rescan.',
  watching: 'New models appear automatically.',
  trashed: (name: Text) => `${name} was moved to the Trash.`,
};

/** A model's state in its row. */
export const verdicts = {
  paused: (done: Text) => `Paused at ${done}`,
  downloading: (done: Text) => `Downloading, ${done}`,
  broken: 'Damaged',
  notLoadable: 'Unsupported',
  drafter: 'Drafter',
  running: 'Running',
  fits: { yes: 'Fits', tight: 'Tight', no: 'Does not fit' },
  needs: (needBytes: Text, availableBytes: Text) =>
    `Needs ~${needBytes}, ${availableBytes} available`,
  needAt: (needBytes: Text, contextTokens: Text) => `${needBytes} for ${contextTokens} tokens`,
};

/** What the need of a model covers. */
export const needParts = {
  weights: (bytes: Text) => `weights ${bytes}`,
  conversation: (contextTokens: Text, bytes: Text) =>
    `one conversation of ${contextTokens} tokens ${bytes}`,
  state: (bytes: Text) => `state ${bytes}`,
  scratch: (bytes: Text) => `scratch ${bytes}`,
};

/** The program whose folder a model is in. */
export const origins = {
  huggingface: 'Hugging Face cache',
  lmstudio: 'LM Studio',
  omlx: 'oMLX',
  ollama: 'Ollama',
  folder: 'Folder',
};

export const kvFormats = {
  default: 'Default: 8-bit keys, 4-bit values',
  affine8: '8-bit',
  affine4: '4-bit',
  q8_0: 'q8_0',
  q4_0: 'q4_0',
  f16: '16-bit, exact',
};

export const modelTable = {
  label: 'Models',
  model: 'Model',
  modelHelp: 'Name, architecture and quantization.',
  parameters: 'Parameters',
  parametersHelp: 'Counted from the file headers. B: billions, M: millions.',
  size: 'Size',
  sizeHelp: 'Weights on disk. GB of 10^9 bytes.',
  needs: 'Needs',
  needsHelp:
    'Memory for weights, cache and scratch at the chosen context, and whether that fits now.',
  actions: 'Actions',
  start: 'Start',
  startLabel: (name: Text) => `Start: ${name}`,
  unload: 'Unload',
  unloadLabel: (name: Text) => `Unload: ${name}`,
  cancel: 'Cancel',
  cancelLabel: (name: Text) => `Cancel loading: ${name}`,
  resume: 'Resume',
  resumeLabel: (name: Text) => `Resume the download: ${name}`,
  convert: 'Convert…',
  convertLabel: (name: Text) => `Convert to MLX: ${name}`,
};

export const need = {
  figure: (needBytes: Text) => `~${needBytes}`,
  figureAt: (needBytes: Text, contextTokens: Text) => `~${needBytes} at ${contextTokens}`,
  help: (need: Text) =>
    `${need}. Estimated before loading: weights, cache and scratch. GB of 2^30 bytes.`,
};

export const modelDetails = {
  about: (name: Text) => `About ${name}`,
  close: 'Close',
  verdict: (verdict: Text) => `${verdict}.`,
  verdictWithNeed: (verdict: Text, need: Text) => `${verdict}. ${need}.`,
  loading: (progress: Text) => `Loading, ${progress}`,
  downloaded: (doneBytes: Text) => `${doneBytes} downloaded.`,
  downloadedOf: (doneBytes: Text, totalBytes: Text) => `${doneBytes} of ${totalBytes} downloaded.`,
  incompleteFiles: (count: Text) => counted(count, 'file is incomplete', 'files are incomplete'),
  partialFile: (name: Text) => `${name}, partial`,
  missingFile: (name: Text) => `${name}, missing`,
  convert: 'Convert…',
  adapt: 'Adapt…',
  adaptLabel: (name: Text) => `Train an adapter for ${name}`,
  convertLabel: (name: Text) => `Convert to another quantization: ${name}`,
  start: 'Start',
  unload: 'Unload',
  cancelLoading: 'Cancel loading',
  architecture: 'Architecture',
  parameters: 'Parameters',
  parametersValue: (short: Text, exact: Text) => `${short} (${exact})`,
  weights: 'Weights',
  drafts: 'Decodes ahead',
  draftsValue: 'With its own block (MTP)',
  blockUnused: (why: Text) => `Not with its own block (MTP): ${why}`,
  adapters: 'Adapters',
  adapter: (id: Text, kind: Text, rank: Text) => `${id} (${kind}, rank ${rank})`,
  sizeOnDisk: 'Size on disk',
  maximumContext: 'Maximum context',
  tokens: (contextTokens: Text) => `${contextTokens} tokens`,
  needs: 'Needs',
  needsAt: (contextTokens: Text) => `Needs at ${contextTokens}`,
  filesChanged: 'Files changed',
  bundled: 'Included with Headroom; it cannot be removed.',
  location: 'Location',
  copies: (places: Text) => `${places} copies`,
  show: `Show in ${fileManager}`,
  showLabel: (path: Text) => `Show in ${fileManager}: ${path}`,
  trash: 'Move to Trash…',
  trashLabel: (path: Text) => `Move to Trash: ${path}`,
  unloadFirst: 'Unload it first',
  trashQuestion: (name: Text) => `Move ${name} to the Trash?`,
  trashText: (sizeBytes: Text, path: Text) => `${sizeBytes} in ${path}. `,
  wholeRepository:
    'In the Hugging Face cache this is the whole repository, which other apps may use too. ',
  otherCopyStays: 'The other copy stays.',
  otherCopiesStay: (others: Text) => `The ${others} other copies stay.`,
  canPutBack: 'You can put it back from the Trash.',
  trashNow: 'Move to Trash',
};

export const modelCheck = {
  title: 'Check against plain decoding',
  help:
    'Answers eight prompts in every way that makes the model faster, and compares each token ' +
    'with plain decoding. Loads the model once more; nothing is saved.',
  start: 'Check this model',
  again: 'Check again',
  stop: 'Stop',
  starting: 'Starting…',
  comparing: (step: Text, steps: Text, what: Text) => `Comparing ${step} of ${steps}: ${what}`,
  stopped: 'Stopped.',
  comparisons: 'Comparisons',
  reference: 'Reference',
  equal: 'Equal',
  different: 'Different',
  differentAllowed: 'Differs, allowed',
  notTried: 'Not tried',
  because: (reason: Text) => `${reason}.`,
  plainFigures: (answers: Text, tokens: Text) =>
    `${counted(answers, 'answer', 'answers')}, ${counted(tokens, 'token', 'tokens')}.`,
  figures: (equalAnswers: Text, answers: Text, equalTokens: Text, tokens: Text) =>
    `Equal: ${equalAnswers} of ${counted(answers, 'answer', 'answers')}, ${equalTokens} of ` +
    `${counted(tokens, 'token', 'tokens')}.`,
  logprobsEqual: 'Same log-probabilities.',
  logprobsWithin: (difference: Text) => `Log-probabilities within ${difference}.`,
  logprobsNotComparable: 'Log-probabilities are not numbers.',
  speeds: (prefill: Text, decode: Text) => `Prefill ${prefill}, decode ${decode}.`,
  parts: (answer: Text, token: Text, plain: Text, other: Text) =>
    `Answer ${answer} differs from token ${token} on: plain ${plain}, here ${other}.`,
  end: 'the end',
  quoted: (text: Text) => `“${text}”`,
  said: (text: Text, logprob: Text) => `“${text}” (${logprob})`,
  checked: (at: Text, device: Text, format: Text, answers: Text, maxTokens: Text) =>
    `Checked ${at} on ${device}, KV cache ${format}; ` +
    `${counted(answers, 'answer', 'answers')} of at most ${maxTokens} tokens.`,
};

export const modelOptionsForm = {
  title: 'How it is loaded',
  setByFlag: 'Set by a command-line flag.',
  context: 'Longest context, tokens',
  automatic: 'Automatic',
  maxSequences: 'Concurrent requests',
  maxSequencesDefault: '8',
  kvFormat: 'Keys and values',
  stateFormat: 'Recurrent state',
  stateDefault: 'Default: 32-bit',
  state16: '16-bit',
  state8: '8-bit',
  speculate: 'Decoding ahead',
  speculateDefault: 'Default: where it is faster',
  speculateLookup: 'Only what was said before',
  speculateMTP: 'Only the model’s own drafts',
  speculateDraft: 'Only drafts of a draft model',
  speculateDFlash: 'Only drafts of a DFlash drafter',
  speculateOff: 'Off',
  draftModel: 'Draft model',
  draftModelHelp: 'A drafter of this model, or a smaller model with its vocabulary',
  draftModelNone: 'None',
  pinned: 'Keep loaded',
  pinnedHelp: 'Neither idle time nor another model unloads it.',
  aliases: 'Other names',
  aliasesExample: 'gpt-4o, my-model',
  idleUnload: 'Unload when idle, minutes',
  idleUnloadDefault: 'As in Settings',
  savedNow: 'Saved. Applies from the next request.',
  savedReload: 'Applies when the model is reloaded.',
  saved: 'Saved; the estimate above is updated.',
  reload: 'Reload now',
  undo: 'Undo',
};

export const answerOptions = {
  title: 'Default sampling',
  help: 'Used when a request leaves a value out. Applies from the next request.',
  modelDefault: 'Model default',
  arguments: 'Chat-template arguments',
  argumentsHelp: 'Variables for the chat template, as JSON. A request’s values take precedence.',
  argumentsExample: '{"enable_thinking": false}',
  notArguments: 'Enter a JSON object, for example {"enable_thinking": false}.',
};

export const arrivals = {
  label: 'New models',
  ready: (name: Text) => `${name} is ready`,
  verified: (need: Text) => `Verified. ${need}.`,
  start: 'Start',
  show: 'Show',
  dismiss: (name: Text) => `Dismiss: ${name}`,
};

export const suggestions = {
  title: 'Good first models',
  download: (downloadBytes: Text) => `~${downloadBytes} to download`,
  notes: {
    qwen3_600M: 'Tiny and quick; simple questions',
    qwen3_1700M: 'Small; short texts',
    qwen35_4B: 'Long contexts in little memory',
    qwen3_8B: 'A good all-rounder',
    qwen3_14B: 'Better answers, slower',
    qwen36_35B: 'Code and agents; 3B of its 35B parameters are active for each token',
  },
};

export const jobRows = {
  cacheMoves: 'Cache moves',
  importsAndDownloads: 'Imports and downloads',
  import: (title: Text) => `Importing ${title}`,
  download: (title: Text) => `Downloading ${title}`,
  moveCache: (dir: Text) => `Moving the cache to ${dir}`,
  finished: (jobs: Text) => `${jobs} finished`,
  dismissAll: 'Dismiss all',
  withPhase: (progress: Text, phase: Text) => `${progress} (${phase})`,
  stop: 'Stop',
  resume: 'Resume',
  tryAgain: 'Try again',
  dismiss: (title: Text) => `Dismiss: ${title}`,
  discardLabel: (title: Text) => `Discard: ${title}`,
  discard: 'Delete',
  discardImport: 'Delete what was copied?',
  discardDownload: 'Delete the partial download?',
  discardMove: 'Delete what was copied?',
  partialDeleted: (bytes: Text) => `The ${bytes} downloaded so far will be deleted.`,
  copyDeleted: (bytes: Text) => `The ${bytes} copied so far will be deleted.`,
  cacheStays: (bytes: Text) =>
    `The cache stays where it is. The ${bytes} copied so far will be deleted.`,
};

/** Imports and downloads in words. */
export const transfers = {
  amount: (doneBytes: Text, totalBytes: Text, share: Text) =>
    `${doneBytes} of ${totalBytes} (${share})`,
  perSecond: (bytes: Text) => `${bytes}/s`,
  left: (duration: Text) => `${duration} left`,
  queued: 'Queued',
  verified: (bytes: Text) => `${bytes}, verified`,
  paused: (amount: Text) => `Paused at ${amount}`,
  failed: (amount: Text) => `Failed at ${amount}`,
  linked: (bytes: Text, source: Text) =>
    `${bytes}, linked: nothing is copied, and it stays in ${source}`,
  moved: (bytes: Text) => `${bytes}, moved`,
  movedOnOneDisk: (bytes: Text) => `${bytes}, moved on one disk: nothing is written`,
  copied: (bytes: Text) => `${bytes}, copied`,
  copiedOnOneDisk: (bytes: Text) => `${bytes}, copied on one disk: nothing is written`,
  converted: (bytes: Text) => `${bytes}, converted to MLX; the GGUF file stays`,
  /** Follows an amount that a file system may store once for both copies. */
  cloned: '; the copy can share disk space with the original',
  copy: (models: Text, bytes: Text) => `Copy ${counted(models, 'model', 'models')}, ${bytes}`,
  move: (models: Text, bytes: Text) => `Move ${counted(models, 'model', 'models')}, ${bytes}`,
  convert: (models: Text, bytes: Text) => `Convert ${counted(models, 'model', 'models')}, ${bytes}`,
  link: (models: Text, bytes: Text) => `Link ${counted(models, 'model', 'models')}, ${bytes}`,
};

export const convertSheet = {
  title: (name: Text) => `Convert ${name}`,
  mode: 'Mode',
  affine: 'Affine (integers)',
  bits: 'Bits',
  group: 'Group size',
  name: 'Name',
  size: (bytes: Text, before: Text) =>
    `The result has ${bytes}; the model has ${before} and stays.`,
  need: (verdict: Text, need: Text, available: Text) =>
    `${verdict}: needs ~${need}, ${available} available.`,
  into: (folder: Text) => `Into ${folder}.`,
  intoWithFree: (folder: Text, freeBytes: Text) => `Into ${folder}, ${freeBytes} free.`,
  checking: 'Checking…',
  cancel: 'Cancel',
  convert: 'Convert',
};

export const importSheet = {
  title: 'Import',
  path: 'Model folder',
  pathExample: '/path/to/model',
  check: 'Check',
  choose: 'Choose…',
  help:
    'A model folder contains config.json and .safetensors files. A folder of several model ' +
    'folders works too. A GGUF file is converted to MLX.',
  mode: 'How',
  copy: 'Copy',
  copyHelp: 'The original folder stays.',
  move: 'Move',
  moveHelp: 'The original folder is removed.',
  link: 'Link',
  linkHelp: 'Nothing is copied. If the original is deleted, the model disappears here.',
  checking: 'Checking…',
  items: 'Models to import',
  importable: (models: Text) => `${models} can be imported`,
  listed: (models: Text) => `${models} already here`,
  refused: (models: Text) => `${models} cannot`,
  listedItem: 'Already here',
  refusedTitle: (models: Text) => `${counted(models, 'folder', 'folders')} cannot be imported`,
  into: (folder: Text) => `Into ${folder}.`,
  intoWithFree: (folder: Text, freeBytes: Text) => `Into ${folder}, ${freeBytes} free.`,
  cancel: 'Cancel',
  import: 'Import',
};

export const downloadSheet = {
  title: 'Download',
  searchLabel: 'Search Hugging Face',
  searchExample: 'Search Hugging Face',
  search: 'Search',
  searching: 'Searching Hugging Face…',
  tryAgain: 'Try again',
  noMatch: 'No .safetensors models match.',
  results: 'Search results',
  showUnsupported: (models: Text) => `Show ${models} unsupported`,
  hideUnsupported: (models: Text) => `Hide ${models} unsupported`,
};

/** A model of the hub, and its quantizations. */
export const hub = {
  unknownArchitecture: 'unknown architecture',
  mlx: 'MLX',
  huggingFaceFormat: 'Hugging Face format',
  downloadsPerMonth: (downloads: Text) => `${downloads} downloads a month`,
  licence: (licence: Text) => `licence ${licence}`,
  unknownLicence: 'licence not stated',
  notSupported: (why: Text) => `Not supported yet${why && `: ${why}`}.`,
  unsupported: 'Not supported',
  gated: 'Gated:',
  acceptLicence: 'accept its licence on Hugging Face first',
  more: 'More quantizations',
  moreLabel: (base: Text) => `More quantizations of ${base}`,
  choices: (base: Text) => `Quantizations of ${base}`,
  original: 'As published',
  unknown: '–',
  unknownNeed: 'Need not known',
  needs: (needBytes: Text) => `Needs ~${needBytes}`,
  needsOf: (needBytes: Text, availableBytes: Text) =>
    `Needs ~${needBytes} of ${availableBytes} available.`,
  needsHelp: (parts: Text, availableBytes: Text) =>
    `Estimated from its config.json: ${parts}. ${availableBytes} available. GB of 2^30 bytes.`,
  speed: (speed: Text) => `~${speed}`,
  tokensPerSecond: (tokens: Text) => `${tokens} tok/s`,
  speedHelp:
    'Decode speed to expect in a short conversation, estimated from the bandwidth of this ' +
    'computer’s memory.',
  files: 'Files',
  filesLabel: (id: Text) => `Files of ${id}`,
};

export const foundFiles = {
  label: (id: Text) => `Files of ${id}`,
  selected: (count: Text, bytes: Text) => `${counted(count, 'file', 'files')}, ${bytes}`,
  downloadBytes: (bytes: Text) => `Download ${bytes}`,
  reading: 'Reading the list of files…',
};

/** The button of one model of the hub. */
export const getModel = {
  actions: { download: 'Download', resume: 'Resume', stop: 'Stop', start: 'Start' },
  labels: {
    download: (id: Text) => `Download ${id}`,
    resume: (id: Text) => `Resume: ${id}`,
    stop: (id: Text) => `Stop: ${id}`,
    start: (id: Text) => `Start ${id}`,
  },
  downloading: 'Downloading',
  downloadingAt: (done: Text) => `Downloading ${done}`,
  installed: 'Installed',
  running: 'Running',
};

export const hubForm = {
  title: 'Hugging Face account',
  places: {
    environment: 'in the environment, as HF_TOKEN',
    keychain: 'in the system’s keychain',
    file: 'in the file that Hugging Face’s tools use',
  },
  tokenStored: (place: Text) => `A token is stored ${place}.`,
  noToken: 'No token. Only private and gated models need one.',
  help: (endpoint: Text, folder: Text, token: Text) =>
    `Models are downloaded from ${endpoint} to ${folder}, where other tools find them too. ` +
    `${token}`,
  token: 'Token',
  tokenPlaceholder: 'Token, from your Hugging Face settings',
  save: 'Save',
  remove: 'Remove',
  mirror: 'Mirror address',
  mirrorPlaceholder: 'Mirror address; empty: https://huggingface.co',
  saveMirror: 'Save',
};
