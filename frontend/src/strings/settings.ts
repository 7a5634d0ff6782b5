import type { Text } from './text';

export const settings = {
  system: 'System',
  light: 'Light',
  dark: 'Dark',
  settings: 'Settings',
  undo: 'Undo',
  tryAgain: 'Try again',
  engine: 'Engine',
  endpoint: 'Endpoint',
  window: 'Window',
  appearance: 'Appearance',
  windowBrowser: 'For this window or browser.',
  welcome: 'Welcome',
  headroomFitsHereFirst: 'An introduction to Headroom, and a first answer.',
  showAgainWelcome: 'Show again: the welcome',
  showAgain: 'Show again',
  log: 'Log',
  allStands: 'Stored in',
  mayEditedWhileHeadroom:
    ', which you may edit while Headroom is closed. Settings of single models are on the ' +
    'Models page, those of the cache on the Cache page.',
};

export const engineSettings = {
  left: 'Restore last state',
  start: 'Start',
  leaveOff: 'Do not start',
  never: 'Never',
  afterMin: (minutes: Text) => `After ${minutes} min`,
  afterH: (minutes: Text) => `After ${minutes} h`,
  startLogin: 'Start at login',
  headroomAppearsMenuBar: 'Headroom appears in the menu bar.',
  headroomStartsNextLogin: 'Headroom starts at the next login.',
  headroomNoLongerStarts: 'Headroom no longer starts at login.',
  engineStart: 'On launch',
  happensWhenHeadroomStarts: 'Whether the engine starts with Headroom.',
  holdsNextStart: 'Saved. Applies when Headroom restarts.',
  modelStart: 'Model on launch',
  model: 'The model that the engine starts with.',
  oneRanLast: 'Last used',
  notFound: (defaultModel: Text) => `${defaultModel}, not found`,
  unloadWhenUnused: 'Unload when idle',
  memoryFreeThenNext: 'Frees memory; the next request reloads the model.',
  holdsNow: 'Saved.',
  saveBattery: 'Save on battery',
  unusedModelUnloadedAfter:
    'Idle models are unloaded after at most 10 minutes, and only conversations that were ' +
    'reused before are written to disk.',
  holdsMoment: 'Saved.',
  batteryAllUsual: 'Saved.',
  throttleWhenHot: 'Slow down when hot',
  whenSystemReportsSerious:
    'When the system reports serious heat, the engine pauses between steps. Answers are ' +
    'slower, but the same.',
  heatAllUsual: 'Saved.',
  notifications: 'Notifications',
  whenDownloadImportEnded:
    'Shown when a download or import ends, or the engine fails. A click starts the model.',
  endsAnnounced: 'Saved.',
  nothingAnnouncedOutsideWindow: 'Saved.',
};

export const logView = {
  saved: (path: Text) => `Saved as ${path}.`,
  logCouldNotSaved: (cause: Text) => `The log could not be saved: ${cause}. Choose another folder.`,
  searchLog: 'Search the log',
  search: 'Search',
  show: 'Show',
  above: (level: Text) => `${level} and above`,
  log: 'Log',
  holdsNow: 'Saved.',
  linesShown: 'shown lines',
  saveFile: 'Save…',
  nothingBeenLoggedYet: 'Nothing has been logged yet.',
  noLineLike: 'No lines match.',
  lastLinesFileAll: (mostShown: Text, found: Text) =>
    `The last ${mostShown} of ${found} lines; the file has all.`,
};

export const serverSettings = {
  ports: 'Ports are 1 to 65535.',
  portUsedNextStart: 'Saved. The port is used when Headroom restarts.',
  port: 'Port',
  whereEndpointListensComputer: 'The port of the endpoint on this computer.',
  apiKey: 'API key',
  programsMustSendEmpty: 'Apps must send this key. Empty: no key.',
  none: 'None',
  keyHoldsNow: 'Saved.',
  furtherNames: 'Allowed host names',
  underComputerMayReached: 'For example my-mac.local, separated by commas.',
  namesHoldNow: 'Saved.',
  folderImports: 'Import folder',
  whereImportedModelsGo: 'The folder for imported models. Empty: Headroom’s own folder.',
  headroomsOwn: 'Headroom’s own',
  nextImportGoesThere: 'Saved. Used for the next import.',
  modelFolders: 'Model folders',
  lookedThroughBesidesUsual: 'Searched in addition to the usual ones, separated by commas.',
  foldersLookedThroughNext: 'Saved. The folders are searched when Headroom restarts.',
};

export const settingRow = {
  setCommandLineNot: 'Set by a command-line flag, or not available here.',
  holdsNextStartHeadroom: 'Applies after a restart.',
};
