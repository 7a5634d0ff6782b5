import { commandKey } from '../lib/host';
import type { Text } from './text';

const fileManager = commandKey === '⌘' ? 'Finder' : 'folder';

export const models = {
  all: 'All',
  fit: 'Fits now',
  notComplete: 'Incomplete',
  cannotUsed: 'Unsupported or damaged',
  models: 'Models',
  searchModels: 'Search models',
  models2: 'Which models',
  needs: 'Memory at',
  usualContext: 'default context',
  tokens: (tokens: Text) => `${tokens} tokens`,
  rescan: 'Rescan',
  importLabel: 'Import…',
  download: 'Download…',
  of: (found: Text, all: Text) => `${found} of ${all}`,
  watchingPaused: '. Watching is paused',
  room: (all: Text, suffix: Text, room: Text, suffix2: Text) =>
    `${all} ${suffix}, room for ${room}${suffix2}`,
  goWatching: 'Resume watching',
  pauseWatching: 'Pause watching',
  tryAgain: 'Try again',
  noModelLike: 'No models match.',
  showAll: 'Show all',
  onlyDemoModelHere: 'Only the demo model is here',
  modelsMlxHuggingFace:
    'Headroom watches these folders; models in MLX or Hugging Face format (a folder with ' +
    'config.json and .safetensors files) appear as they arrive:',
  dropFolderOntoWindow: 'Or drop a folder onto this window.',
};

export const answerOptions = {
  jsonObjectEnableThinking: 'Enter a JSON object, for example {"enable_thinking": false}.',
  answersModel: 'Default sampling',
  requestsDoNotSay: 'Used when a request leaves a value out. Applies from the next request.',
  own: 'Model default',
  chatTemplateArguments: 'Chat-template arguments',
  variablesTemplateJsonRequests:
    'Variables for the chat template, as JSON. A request’s values take precedence.',
};

export const arrivals = {
  newModels: 'New models',
  here: (name: Text) => `${name} is ready`,
  checked: (sizeBytes: Text, roomBytes: Text) => `${sizeBytes}, verified. ${roomBytes}.`,
  start: 'Start',
  show: 'Show',
  dismiss: (name: Text) => `Dismiss: ${name}`,
};

export const downloadSheet = {
  kindNotKnown: 'unknown architecture',
  huggingFaceFormat: 'Hugging Face format',
  downloadsMonth: (downloads: Text) => `${downloads} downloads a month`,
  headroomDoesNotRun: 'not supported yet',
  termsAcceptedHubsPage: 'accept its licence on Hugging Face first',
  download: 'Download',
  searchHub: 'Search Hugging Face',
  searchHubExampleQwen: 'Search Hugging Face, for example Qwen3.6 MLX',
  search: 'Search',
  askingHub: 'Searching Hugging Face…',
  hubNoModelSafetensors: 'No .safetensors models match.',
  foundHub: 'Search results',
  files: 'Files',
  download2: (id: Text) => `Download ${id}`,
  underWay: 'Downloading',
  files2: (id: Text) => `Files of ${id}`,
  download3: (bytes: Text) => `Download ${bytes}`,
};

export const hubForm = {
  environmentHfToken: 'in the environment, as HF_TOKEN',
  systemsKeychain: "in the system's keychain",
  fileHuggingFacesTools: "in the file that Hugging Face's tools use",
  hubToken: 'Hugging Face account',
  thereToken: (token: Text) => `A token is stored ${token}.`,
  thereNoTokenOnly: 'No token. Only private and gated models need one.',
  modelsComeWhereOther: (endpoint: Text, folder: Text, thereNoTokenOnly: Text) =>
    `Models are downloaded from ${endpoint} to ${folder}, where other tools find them too. ` +
    `${thereNoTokenOnly}`,
  token: 'Token',
  tokenHubsSettings: 'Token, from your Hugging Face settings',
  keep: 'Save',
  remove: 'Remove',
  addressMirror: 'Mirror address',
  addressMirrorEmptyHttps: 'Mirror address; empty: https://huggingface.co',
  use: 'Save',
};

export const importSheet = {
  copy: 'Copy',
  originalStays: 'The original folder stays.',
  move: 'Move',
  originalGoneAfterwards: 'The original folder is removed.',
  link: 'Link',
  modelStaysWhereGone: 'Nothing is copied; delete the original and the model disappears here.',
  importLabel: 'Import',
  pathModelsFolder: 'Model folder',
  look: 'Check',
  choose: 'Choose…',
  modelsFolderHoldsConfig:
    'A model folder contains config.json and .safetensors files. A folder of several model ' +
    'folders works too.',
  how: 'How',
  imported: 'Models to import',
  whereFree: (freeBytes: Text) => `, ${freeBytes} free`,
  into: (folder: Text, suffix: Text) => `Into ${folder}${suffix}.`,
  looking: 'Checking…',
  cancel: 'Cancel',
};

export const jobRows = {
  importLabel: 'Import',
  download: 'Download',
  move: 'Move',
  cache: (title: Text) => `cache to ${title}`,
  of: (kind: Text, suffix: Text) => `${kind}: ${suffix}`,
  movesCache: 'Cache moves',
  importsDownloads: 'Imports and downloads',
  far: (title: Text) => `Progress: ${title}`,
  stop: 'Stop',
  tryAgain: 'Try again',
  go: 'Resume',
  dismiss: (title: Text) => `Dismiss: ${title}`,
  discardNamed: (title: Text) => `Discard: ${title}`,
  download2: (id: Text) => `Download: ${id}`,
  of2: (totalBytes: Text) => ` of ${totalBytes}`,
  stopped: (doneBytes: Text, suffix: Text) => `Paused at ${doneBytes}${suffix}`,
  discardQuestion: (toLowerCase: Text) => `Discard this ${toLowerCase}?`,
  cacheStaysWhereBeen: 'The cache stays where it is. The data copied',
  come: 'The data downloaded',
  farRemovedGoLater: (come: Text) => `${come} so far will be deleted.`,
  discard: 'Discard',
};

export const modelDetails = {
  architecture: 'Architecture',
  parameters: 'Parameters',
  weights: 'Weights',
  sizeDisk: 'Size on disk',
  trained: 'Maximum context',
  tokens: (contextTokens: Text) => `${contextTokens} tokens`,
  at: (contextTokens: Text) => ` at ${contextTokens}`,
  needs: (suffix: Text) => `Needs${suffix}`,
  filesChanged: 'Files changed',
  moveTrash: (name: Text) => `Move ${name} to the Trash?`,
  inLabel: (sizeBytes: Text, path: Text) => `${sizeBytes} in ${path}. `,
  huggingFaceCacheWhole:
    'In the Hugging Face cache this is the whole repository, which other apps may use too. ',
  otherPlace: 'The other copy stays.',
  otherPlaces: (others: Text) => `The ${others} other copies stay.`,
  youCanPutBack: 'You can put it back from the Trash.',
  moveTrash2: 'Move to Trash',
  about: (name: Text) => `About ${name}`,
  close: 'Close',
  loading: (progress: Text) => `Loading, ${progress}`,
  downloaded: 'Downloaded',
  of: (totalBytes: Text) => ` of ${totalBytes}`,
  here: (doneBytes: Text, suffix: Text) => `${doneBytes} here${suffix}.`,
  file: 'file is incomplete',
  files: 'files are incomplete',
  notWhole: (parts: Text, files: Text) => `${parts} ${files}`,
  part: (name: Text) => `${name}, partial`,
  missing: (name: Text) => `${name}, missing`,
  unload: 'Unload',
  cancelLoading: 'Cancel loading',
  start: 'Start',
  partHeadroomTakesNo: 'Included with Headroom; it cannot be removed.',
  sameModelPlaces: (places: Text) => `${places} copies`,
  whereLies: 'Location',
  showInFileManager: (path: Text) => `Show in ${fileManager}: ${path}`,
  show: `Show in ${fileManager}`,
  moveTrash3: (path: Text) => `Move to Trash: ${path}`,
  unloadFirst: 'Unload it first',
  remove: 'Remove…',
};

export const modelOptionsForm = {
  settingsModel: 'How it is loaded',
  longestContextTokens: 'Longest context, tokens',
  setCommandLine: 'Set by a command-line flag.',
  fits: 'Automatic',
  requestsOnce: 'Requests at once',
  keysValues: 'Keys and values',
  recurrentState: 'Recurrent state',
  usualBit: 'Default: 32-bit',
  bit: '16-bit',
  bit2: '8-bit',
  keptHoldsNextRequest: 'Saved. Applies from the next request.',
  holdsWhenStartedAgain: 'Applies when the model is reloaded.',
  keptNeedAboveFollows: 'Saved; the estimate above is updated.',
  restartNow: 'Reload now',
  undo: 'Undo',
};

export const modelTable = {
  model: 'Model',
  nameArchitectureWeightsPacked: 'Name, architecture and quantization.',
  parameters: 'Parameters',
  countedHeadersFilesB: 'Counted from the file headers. B: billions, M: millions.',
  size: 'Size',
  weightsDiskGbBytes: 'Weights on disk. GB of 10^9 bytes.',
  needs: 'Needs',
  memoryWeightsCacheScratch:
    'Memory for weights, cache and scratch at the chosen context, and whether that fits now.',
  models: 'Models',
  actions: 'Actions',
  unload: 'Unload',
  cancelLoading: 'Cancel loading',
  cancel: 'Cancel',
  start: (name: Text) => `Start: ${name}`,
  start2: 'Start',
};

export const need = {
  estimatedBeforeLoadingWeights: (roomBytes: Text) =>
    `${roomBytes}. Estimated before loading: weights, cache and scratch. GB of 2^30 bytes.`,
};

export const suggestions = {
  begin: 'Good first models',
  moreFree: (roomBytes: Text) => `: more than the ${roomBytes} available`,
  downloadNeeds: (note: Text, bytes: Text, one: Text, suffix: Text) =>
    `${note}. ~${bytes} to download, needs ~${one}${suffix}`,
  download: (id: Text) => `Download ${id}`,
  way: 'Downloading',
  download2: 'Download',
};
