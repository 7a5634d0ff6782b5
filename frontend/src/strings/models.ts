import type { Text } from './text';

export const models = {
  all: 'All',
  fit: 'That fit',
  notComplete: 'Not complete',
  cannotUsed: 'Cannot be used',
  models: 'Models',
  searchModels: 'Search models',
  models2: 'Which models',
  needs: 'Needs at',
  usualContext: 'its usual context',
  tokens: (tokens: Text) => `${tokens} tokens`,
  lookAgain: 'Look again',
  importLabel: 'Import…',
  download: 'Download…',
  of: (found: Text, all: Text) => `${found} of ${all}`,
  watchingPaused: '. Watching is paused',
  room: (all: Text, suffix: Text, room: Text, suffix2: Text) =>
    `${all} ${suffix}, room for ${room}${suffix2}`,
  goWatching: 'Go on watching',
  pauseWatching: 'Pause watching',
  tryAgain: 'Try again',
  noModelLike: 'No model is like that.',
  showAll: 'Show all',
  onlyDemoModelHere: 'Only the demo model is here',
  modelsMlxHuggingFace:
    'Models in MLX or Hugging Face format (a folder with config.json and .safetensors files) appear by themselves when they lie in one of these folders, while they download too:',
  dropFolderOntoWindow: 'Or drop a folder onto this window.',
};

export const answerOptions = {
  jsonObjectEnableThinking: 'A JSON object, as {"enable_thinking": false}.',
  answersModel: 'Answers of this model',
  requestsDoNotSay: 'For requests that do not say it themselves. Holds from the next request on.',
  own: 'Its own',
  chatTemplateArguments: 'Chat-template arguments',
  variablesTemplateJsonRequests:
    'Variables for the template, as JSON. A request’s own beat them one by one.',
};

export const arrivals = {
  newModels: 'New models',
  here: (name: Text) => `${name} is here`,
  checked: (sizeBytes: Text, roomBytes: Text) => `${sizeBytes}, checked. ${roomBytes}.`,
  start: 'Start',
  show: 'Show',
  dismiss: (name: Text) => `Dismiss: ${name}`,
};

export const downloadSheet = {
  kindNotKnown: 'kind not known',
  huggingFaceFormat: 'Hugging Face format',
  downloadsMonth: (downloads: Text) => `${downloads} downloads a month`,
  headroomDoesNotRun: 'Headroom does not run this kind yet',
  termsAcceptedHubsPage: "its terms have to be accepted on the hub's page first",
  download: 'Download',
  searchHub: 'Search the hub',
  searchHubExampleQwen: 'Search the hub, for example Qwen3.6 MLX',
  search: 'Search',
  askingHub: 'Asking the hub…',
  hubNoModelSafetensors: 'The hub has no model of .safetensors files with these words in its name.',
  foundHub: 'Found on the hub',
  files: 'Files',
  download2: (id: Text) => `Download ${id}`,
  underWay: 'Under way',
  files2: (id: Text) => `Files of ${id}`,
  download3: (bytes: Text) => `Download ${bytes}`,
};

export const hubForm = {
  environmentHfToken: 'in the environment, as HF_TOKEN',
  systemsKeychain: "in the system's keychain",
  fileHuggingFacesTools: "in the file that Hugging Face's tools use",
  hubToken: 'Hub and token',
  thereToken: (token: Text) => `There is a token ${token}.`,
  thereNoTokenOnly: 'There is no token; only private and gated models need one.',
  modelsComeWhereOther: (endpoint: Text, folder: Text, thereNoTokenOnly: Text) =>
    `Models come from ${endpoint} into ${folder}, where other tools find them too. ${thereNoTokenOnly}`,
  token: 'Token',
  tokenHubsSettings: "Token, from the hub's settings",
  keep: 'Keep',
  remove: 'Remove',
  addressMirror: 'Address of a mirror',
  addressMirrorEmptyHttps: 'Address of a mirror; empty: https://huggingface.co',
  use: 'Use',
};

export const importSheet = {
  copy: 'Copy',
  originalStays: 'The original stays as it is.',
  move: 'Move',
  originalGoneAfterwards: 'The original is gone afterwards.',
  link: 'Link',
  modelStaysWhereGone:
    'The model stays where it is, and is gone from the list when it goes from there.',
  importLabel: 'Import',
  pathModelsFolder: "Path of a model's folder",
  look: 'Look',
  choose: 'Choose…',
  modelsFolderHoldsConfig:
    "A model's folder holds config.json and .safetensors files. A folder with several such folders in it is fine too.",
  how: 'How',
  imported: 'What is imported',
  whereFree: (freeBytes: Text) => `, where ${freeBytes} are free`,
  into: (folder: Text, suffix: Text) => `Into ${folder}${suffix}.`,
  looking: 'Looking…',
  cancel: 'Cancel',
};

export const jobRows = {
  importLabel: 'Import',
  download: 'Download',
  move: 'Move',
  cache: (title: Text) => `the cache to ${title}`,
  of: (kind: Text, suffix: Text) => `${kind} of ${suffix}`,
  movesCache: 'Moves of the cache',
  importsDownloads: 'Imports and downloads',
  far: (title: Text) => `How far: ${title}`,
  stop: 'Stop',
  tryAgain: 'Try again',
  go: 'Go on',
  dismiss: (title: Text) => `Dismiss: ${title}`,
  giveUp: (title: Text) => `Give up: ${title}`,
  download2: (id: Text) => `Download of ${id}`,
  of2: (totalBytes: Text) => ` of ${totalBytes}`,
  stopped: (doneBytes: Text, suffix: Text) => `Stopped at ${doneBytes}${suffix}`,
  giveUp2: (toLowerCase: Text) => `Give up the ${toLowerCase}?`,
  cacheStaysWhereBeen: 'The cache stays where it is, and what has been copied',
  come: 'What has come',
  farRemovedGoLater: (come: Text) => `${come} so far is removed. To go on later, stop it instead.`,
  giveUp3: 'Give up',
};

export const modelDetails = {
  architecture: 'Architecture',
  parameters: 'Parameters',
  weights: 'Weights',
  sizeDisk: 'Size on disk',
  trained: 'Trained for',
  tokens: (contextTokens: Text) => `${contextTokens} tokens`,
  at: (contextTokens: Text) => ` at ${contextTokens}`,
  needs: (suffix: Text) => `Needs${suffix}`,
  filesChanged: 'Files changed',
  moveTrash: (name: Text) => `Move ${name} to the trash?`,
  inLabel: (sizeBytes: Text, path: Text) => `${sizeBytes} in ${path}. `,
  huggingFaceCacheWhole:
    'In the Hugging Face cache that is the whole repository, which other programs may use too. ',
  otherPlace: 'the other place',
  otherPlaces: (others: Text) => `${others} other places`,
  stays: (others: Text) => `It stays in ${others}.`,
  youCanPutBack: 'You can put it back from there.',
  moveTrash2: 'Move to trash',
  about: (name: Text) => `About ${name}`,
  close: 'Close',
  loading: (progress: Text) => `Loading, ${progress}`,
  downloaded: 'Downloaded',
  of: (totalBytes: Text) => ` of ${totalBytes}`,
  here: (doneBytes: Text, suffix: Text) => `${doneBytes} here${suffix}.`,
  file: 'file is',
  files: 'files are',
  notWhole: (parts: Text, files: Text) => `${parts} ${files} not whole`,
  part: (name: Text) => `${name}, in part`,
  missing: (name: Text) => `${name}, missing`,
  unload: 'Unload',
  cancelLoading: 'Cancel loading',
  start: 'Start',
  partHeadroomTakesNo: 'It is part of Headroom, so it takes no folder and cannot be removed.',
  sameModelPlaces: (places: Text) => `The same model in ${places} places`,
  whereLies: 'Where it lies',
  showFolder: (path: Text) => `Show in its folder: ${path}`,
  show: 'Show',
  moveTrash3: (path: Text) => `Move to the trash: ${path}`,
  unloadFirst: 'Unload it first',
  remove: 'Remove…',
};

export const modelOptionsForm = {
  settingsModel: 'Settings of this model',
  longestContextTokens: 'Longest context, tokens',
  setCommandLine: 'Set on the command line.',
  fits: 'What fits',
  requestsOnce: 'Requests at once',
  keysValues: 'Keys and values',
  recurrentState: 'Recurrent state',
  usualBit: 'Usual: 32-bit',
  bit: '16-bit',
  bit2: '8-bit',
  keptHoldsNextRequest: 'Kept. Holds from the next request on.',
  holdsWhenStartedAgain: 'Holds when it is started again.',
  keptNeedAboveFollows: 'Kept. The need above follows.',
  restartNow: 'Restart now',
  undo: 'Undo',
};

export const modelTable = {
  model: 'Model',
  nameArchitectureWeightsPacked: 'Its name, architecture, and how its weights are packed.',
  parameters: 'Parameters',
  countedHeadersFilesB: 'Counted from the headers of its files. B: billions, M: millions.',
  size: 'Size',
  weightsDiskGbBytes: 'Of its weights on disk. GB of 10^9 bytes.',
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
  begin: 'To begin with',
  moreFree: (roomBytes: Text) => `: more than the ${roomBytes} free`,
  downloadNeeds: (note: Text, bytes: Text, one: Text, suffix: Text) =>
    `${note}. ~${bytes} to download, needs ~${one}${suffix}`,
  download: (id: Text) => `Download ${id}`,
  way: 'On its way',
  download2: 'Download',
};
