// The Settings page.
import type { StoredItem } from '../lib/backend/types';
import type { Text } from './text';

export const settings = {
  title: 'Settings',
  undo: 'Undo',
  restored: 'Restored.',
  tryAgain: 'Try again',
  engine: 'Engine',
  endpoint: 'Endpoint',
  window: 'Window',
  appearance: 'Appearance',
  appearanceHelp: 'For this window or browser.',
  system: 'System',
  light: 'Light',
  dark: 'Dark',
  menuBarFigure: 'Beside the menu-bar icon',
  menuBarFigureHelp: 'A figure that changes while you watch.',
  menuBarFigures: { none: 'Nothing', speed: 'Speed', memory: 'Available memory' },
  saved: 'Saved.',
  welcome: 'Welcome',
  welcomeHelp: 'An introduction to Headroom, and a first answer.',
  showWelcome: 'Show again',
  showWelcomeLabel: 'Show again: the welcome',
  log: 'Log',
  storedIn: 'Stored in',
  storedInRest:
    ', which you may edit after you quit Headroom. Settings of single models are on the ' +
    'Models page, those of the cache on the Cache page.',
};

export const storedCard = {
  title: 'On this computer',
  help:
    'What Headroom has stored, and where. Only you can read chats, cache and settings. The log ' +
    'is in memory until Headroom quits.',
  kinds: {
    chats: 'Chats',
    cache: 'Cache on SSD',
    batches: 'Files and batches of clients',
    jobs: 'Unfinished downloads and imports',
    training: 'Python environment for training',
    log: 'Log',
    settings: 'Settings',
    keys: 'API keys and token, which stay',
    agents: 'Copies of agents’ files, which stay',
    models: 'Models in Headroom’s folders',
  } satisfies Record<StoredItem['kind'], string>,
  none: 'None',
  inMemory: 'in memory',
  deleteEverything: 'Delete everything…',
  question: 'Delete everything?',
  text: (chatsBytes: Text, cacheBytes: Text) =>
    `Chats (${chatsBytes}), the cache (${cacheBytes}), unfinished downloads and imports, and the ` +
    'log are deleted for good, in every window. Running answers stop. Downloaded models stay, ' +
    'because other apps share them.',
  alsoSettings: 'Also reset the settings, except for the API key and the allowed host names',
  alsoModels: (bytes: Text) => `Also move the models in Headroom’s folders to the Trash (${bytes})`,
  deleteNow: 'Delete everything',
  deleting: 'Deleting…',
  deleted: (bytes: Text) => `Deleted ${bytes}.`,
};

export const engineSettings = {
  saved: 'Saved.',
  savedForRestart: 'Saved. Applies when Headroom restarts.',
  startAtLogin: 'Start at login',
  startAtLoginHelp: 'Headroom appears in the menu bar.',
  startsAtLogin: 'Headroom starts at the next login.',
  startsNoMore: 'Headroom no longer starts at login.',
  onLaunch: 'On launch',
  onLaunchHelp: 'Whether the engine starts with Headroom.',
  restoreState: 'Restore last state',
  start: 'Start',
  doNotStart: 'Do not start',
  launchModel: 'Model on launch',
  launchModelHelp: 'The model that the engine starts with.',
  lastUsed: 'Last used',
  notFound: (model: Text) => `${model}, not found`,
  idleUnload: 'Unload when idle',
  idleUnloadHelp: 'Frees memory; the next request reloads the model.',
  never: 'Never',
  afterMinutes: (minutes: Text) => `After ${minutes} min`,
  afterHours: (hours: Text) => `After ${hours} h`,
  loadOnRequest: 'Load models on request',
  loadOnRequestHelp:
    'A request loads the model that it names. If memory is short, it replaces the model that was ' +
    'unused for longest.',
  requestWait: 'Wait for a model',
  requestWaitHelp: 'How long a request waits until its model is loaded.',
  waitMinutes: (minutes: Text) => `Up to ${minutes} min`,
  batterySaver: 'Save on battery',
  batterySaverHelp:
    'Idle models are unloaded after at most 10 minutes, and only conversations that were ' +
    'reused before are written to disk.',
  throttle: 'Slow down when hot',
  throttleHelp:
    'When the system reports serious heat, the engine pauses between steps. Answers are ' +
    'slower, but the same.',
  relieve: 'Free memory under pressure',
  relieveHelp:
    'While the system reports that memory is short, cached conversations in memory are freed, ' +
    'oldest first. Those on disk stay.',
  notifications: 'Notifications',
  notificationsHelp:
    'Shown when a download or import ends, or the engine fails. A click starts the model.',
};

export const serverSettings = {
  port: 'Port',
  portHelp: 'The port of the endpoint on this computer.',
  portRange: 'Ports are 1 to 65535.',
  ollamaPort: 'Also listen on Ollama’s port',
  ollamaPortHelp: 'Port 11434, if no other program uses it: for apps that expect Ollama there.',
  ollamaDelete: 'Let apps delete models',
  ollamaDeleteHelp:
    'Apps that use Ollama’s API can move models to the Trash: those in the folders that ' +
    'Headroom downloads or imports to.',
  portSaved: 'Saved. The port is used when Headroom restarts.',
  apiKey: 'Key without a name',
  apiKeyHelp: 'From an earlier version, stored as text. Remove it when apps have keys with names.',
  hostNames: 'Allowed host names',
  hostNamesHelp: 'For example my-mac.local, separated by commas.',
  origins: 'Allowed origins',
  originsHelp: 'Apps and web pages, such as app://obsidian.md or vscode-webview://*.',
  importFolder: 'Import folder',
  importFolderHelp: 'The folder for imported models. Empty: Headroom’s own folder.',
  importFolderDefault: 'Headroom’s own',
  importFolderSaved: 'Saved. Used for the next import.',
  modelFolders: 'Model folders',
  modelFoldersHelp: 'Searched in addition to the usual ones, separated by commas.',
  modelFoldersSaved: 'Saved. The folders are searched when Headroom restarts.',
  none: 'None',
  saved: 'Saved.',
};

export const keysCard = {
  title: 'API keys',
  help:
    'Without a key, all programs on this computer can use the endpoint. With one, each must send ' +
    'a key. Only hashes of keys are stored.',
  none: 'No keys.',
  add: 'New key…',
  edit: 'Edit…',
  editLabel: (name: Text) => `Edit ${name}`,
  remove: 'Remove…',
  removeLabel: (name: Text) => `Remove ${name}`,
  allModels: 'All models',
  perMinute: (requests: Text) => `${requests} requests per minute`,
  atOnce: (requests: Text) => `${requests} at once`,
  paired: 'for a paired machine alone',
  batch: 'after other requests',
  neverUsed: 'Never used',
  used: (requests: Text, promptTokens: Text, generatedTokens: Text, lastUse: Text) =>
    `${requests} requests, ${promptTokens} prompt tokens, ${generatedTokens} generated tokens; ` +
    `last used ${lastUse}`,
  made: (name: Text) => `${name} was made.`,
  saved: 'Saved.',
  removed: (name: Text) => `${name} was removed.`,
  question: (name: Text) => `Remove the key ${name}?`,
  consequences: 'Apps that send it get no answers any more, and their running requests end.',
  lastConsequences:
    'It is the last key. Its running requests end. If only this computer can reach the server, ' +
    'programs on it need no key any more; otherwise nobody gets answers.',
  removeNow: 'Remove',
};

export const keySheet = {
  add: 'New API key',
  edit: 'API key',
  name: 'Name',
  nameExample: 'Laptop',
  perMinute: 'Requests per minute',
  atOnce: 'Requests at once',
  noLimit: 'No limit',
  models: 'Models',
  allModels: 'All',
  someModels: 'Only these',
  batch: 'Run after other requests',
  make: 'Make key',
  save: 'Save',
  cancel: 'Cancel',
  made: 'Copy this key now. It is not stored, and cannot be shown again.',
  what: 'API key',
  howTo: 'Apps send it as their API key, to OpenAI’s and to Anthropic’s API.',
  close: 'Done',
};

export const settingRow = {
  fixed: 'Set by a command-line flag.',
  afterRestart: 'Applies when Headroom restarts.',
};

export const logView = {
  search: 'Search',
  searchLabel: 'Search the log',
  show: 'Show',
  record: 'Record',
  andAbove: (level: Text) => `${level} and above`,
  onlyErrors: 'errors',
  log: 'Log',
  recordSaved: 'Saved.',
  shownLines: 'shown lines',
  save: 'Save…',
  saved: (path: Text) => `Saved as ${path}.`,
  notSaved: (cause: Text) => `The log could not be saved: ${cause}. Choose another folder.`,
  empty: 'Nothing has been logged yet.',
  noMatch: 'No lines match.',
  lastLines: (shown: Text, found: Text) => `The last ${shown} of ${found} lines; the file has all.`,
};

export const updatesCard = {
  title: 'Updates',
  feed: 'Update feed',
  feedHelp:
    'Read once a day, without anything about this computer. Empty: Headroom looks for no updates.',
  feedPlaceholder: 'https://',
  key: 'Key of the feed',
  keyHelp: 'The publisher’s public key (minisign). Nothing that it has not signed is installed.',
  saved: 'Saved.',
  current: (version: Text) => `This is version ${version}.`,
  off: 'Enter the address of a feed to look for updates.',
  checking: 'Looking for updates…',
  neverChecked: 'Headroom has not looked for updates yet.',
  upToDate: (when: Text) => `There is no newer version (${when}).`,
  available: (version: Text, bytes: Text) => `Version ${version} is available, ${bytes}.`,
  notInstalled: 'This copy was built from source and cannot update itself.',
  downloading: (version: Text, part: Text) => `Downloading version ${version}, ${part}.`,
  ready: (version: Text) => `Version ${version} is installed when Headroom quits.`,
  goesBack: (version: Text) => `Version ${version} is restored when Headroom quits.`,
  progress: 'Download of the update',
  checkNow: 'Check now',
  download: 'Download',
  stop: 'Stop',
  doNotInstall: 'Don’t install',
  back: (version: Text) => `Restore version ${version}`,
};

export const reportSheet = {
  title: 'Bug report',
  help: 'Nothing is sent. Read the parts, leave out what you do not want to share, and save.',
  parts: {
    machine: 'This computer',
    settings: 'Settings, without secrets',
    state: 'State',
    selftest: 'Self-test of the GPU',
    log: 'Log',
  },
  show: 'Show',
  showPart: (part: Text) => `Show ${part}`,
  what: 'bug report',
  save: 'Save…',
  saved: (path: Text) => `Saved to ${path}.`,
  notSaved: (why: Text) => `Not saved: ${why}`,
};
