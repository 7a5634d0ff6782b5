import type { Text } from './text';

export const settings = {
  system: 'As the system',
  light: 'Light',
  dark: 'Dark',
  settings: 'Settings',
  undo: 'Undo',
  tryAgain: 'Try again',
  engine: 'Engine',
  endpoint: 'Endpoint',
  window: 'Window',
  appearance: 'Appearance',
  windowBrowser: 'Of this window, or this browser.',
  welcome: 'Welcome',
  headroomFitsHereFirst: 'What Headroom is, what fits here, and a first answer.',
  showAgainWelcome: 'Show again: the welcome',
  showAgain: 'Show again',
  log: 'Log',
  allStands: 'All of it stands in',
  mayEditedWhileHeadroom:
    ', which may be edited while Headroom is closed. How single models are run is set on the Models page, what is kept of conversations on the Cache page.',
};

export const engineSettings = {
  left: 'As it was left',
  start: 'Start it',
  leaveOff: 'Leave it off',
  never: 'Never',
  afterMin: (minutes: Text) => `After ${minutes} min`,
  afterH: (minutes: Text) => `After ${minutes} h`,
  startLogin: 'Start at login',
  headroomAppearsMenuBar: 'Headroom appears in the menu bar.',
  headroomStartsNextLogin: 'Headroom starts at the next login.',
  headroomNoLongerStarts: 'Headroom no longer starts at login.',
  engineStart: 'Engine at start',
  happensWhenHeadroomStarts: 'What happens to it when Headroom starts.',
  holdsNextStart: 'Holds from the next start on.',
  modelStart: 'Model at start',
  model: 'Which model that is.',
  oneRanLast: 'The one that ran last',
  notFound: (defaultModel: Text) => `${defaultModel}, not found`,
  unloadWhenUnused: 'Unload when unused',
  memoryFreeThenNext:
    'The memory is free then; the next request loads the model again, and waits for it.',
  holdsNow: 'Holds now.',
  saveBattery: 'Save on battery',
  unusedModelUnloadedAfter:
    'An unused model is unloaded after 10 minutes at most, and only conversations that have gone on before are written to disk.',
  holdsMoment: 'Holds in a moment.',
  batteryAllUsual: 'On battery all is as usual.',
  easeWhenHot: 'Ease when hot',
  whenSystemReportsSerious:
    'When the system reports serious heat, the engine rests between steps: answers come slower, and are the same.',
  heatAllUsual: 'In heat all is as usual.',
  notifications: 'Notifications',
  whenDownloadImportEnded:
    'When a download or an import has ended, or the engine has failed. A click starts the model.',
  endsAnnounced: 'What ends is announced.',
  nothingAnnouncedOutsideWindow: 'Nothing is announced outside the window.',
};

export const logView = {
  saved: (path: Text) => `Saved as ${path}.`,
  logCouldNotSaved: (cause: Text) => `The log could not be saved: ${cause}. Choose another folder.`,
  searchLog: 'Search the log',
  search: 'Search',
  show: 'Show',
  above: (level: Text) => `${level} and above`,
  log: 'Log',
  holdsNow: 'Holds now.',
  linesShown: 'the lines shown',
  saveFile: 'Save as file',
  nothingBeenLoggedYet: 'Nothing has been logged yet.',
  noLineLike: 'No line is like that.',
  lastLinesFileAll: (mostShown: Text, found: Text) =>
    `The last ${mostShown} of ${found} lines; the file has all.`,
};

export const serverSettings = {
  ports: 'Ports are 1 to 65535.',
  portUsedNextStart: 'The port is used from the next start of Headroom on.',
  port: 'Port',
  whereEndpointListensComputer: 'Where the endpoint listens, on this computer.',
  apiKey: 'API key',
  programsMustSendEmpty: 'Programs must send it; empty: none is needed. Holds at once.',
  none: 'None',
  keyHoldsNow: 'The key holds now.',
  furtherNames: 'Further names',
  underComputerMayReached:
    'Under which this computer may be reached, as my-mac.local; commas between.',
  namesHoldNow: 'The names hold now.',
  folderImports: 'Folder for imports',
  whereImportedModelsGo:
    'Where imported models go; empty: Headroom’s own folder. Holds for the next import.',
  headroomsOwn: 'Headroom’s own',
  nextImportGoesThere: 'The next import goes there.',
  modelFolders: 'Model folders',
  lookedThroughBesidesUsual: 'Looked through besides the usual ones; commas between.',
  foldersLookedThroughNext: 'The folders are looked through from the next start of Headroom on.',
};

export const settingRow = {
  setCommandLineNot: 'Set on the command line, or not to be changed here.',
  holdsNextStartHeadroom: 'Holds from the next start of Headroom on.',
};
