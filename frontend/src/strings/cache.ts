import type { Text } from './text';

export const cache = {
  conversations: 'Conversations',
  requests: 'Requests',
  limits: 'Limits',
  nothingKeptDisk: 'Nothing is kept on disk',
  freeFolderChooseAnother: (dir: Text) =>
    `Free the folder ${dir}, or choose another one under Limits, and start Headroom again`,
  cache: 'Cache',
  cacheDiskOff: 'The cache on disk is off',
  turnedOffCommandLine: 'It was turned off on the command line.',
  turnedNextStartHeadroom: 'It is turned on from the next start of Headroom on.',
  modelsReadKeptMemory: (suffix: Text, suffix2: Text) =>
    `What models have read is kept in memory only, and gone when the engine stops. ${suffix} ${suffix2}`,
  cacheNextStartHeadroom: 'The cache is on from the next start of Headroom on.',
  turn: 'Turn it on',
  tryAgain: 'Try again',
  keptWhyReadAgain: 'What is kept, and why it was read again',
  show: 'Show',
  serverNoSettingsChange: 'This server has no settings to change here.',
};

export const cacheLimits = {
  most: 'At most',
  allFilesTogether: 'All files together.',
  leaveFree: 'Leave free',
  diskEverythingElse: 'Of the disk, for everything else.',
  writeDay: 'Write a day',
  mostSpareDrive: 'At most, to spare the drive.',
  notSizeTypeExample: 'Not a size: type for example 15 GB, none, or nothing for the default.',
  limitHoldsNow: 'The limit holds now.',
  newFolderUsedNext: 'The new folder is used from the next start of Headroom on.',
  nothingChanges: 'Nothing changes.',
  cacheNextStartHeadroom: (suffix: Text) =>
    `The cache is ${suffix} from the next start of Headroom on.`,
  keepConversationsDisk: 'Keep conversations on disk',
  setCommandLine: 'Set on the command line.',
  turnedNextStartHeadroom: (suffix: Text) => `Turned ${suffix} from the next start of Headroom on.`,
  readSurvivesRestartChange:
    'So that what was read survives a restart. A change holds from the next start on.',
  noLimit: 'no limit',
  defaultLabel: (now: Text) => `Default: ${now}.`,
  default2: 'Default',
  folder: 'Folder',
  usedNextStartKept: 'Used from the next start on. What is kept stays in the old one.',
  changeHoldsNextStart: 'A change holds from the next start on. What is kept stays in the old one.',
  moveKept: 'Move what is kept',
  movingSeeAbove: 'It is moving: see above.',
  anotherFolderDiskNow:
    'To another folder or disk, now. When no answer is under way, the model is loaded again; requests wait for that.',
  move: 'Move…',
  folderMove: 'Folder to move to',
  move2: 'Move',
  cancel: 'Cancel',
  before: 'As it was before.',
  undo: 'Undo',
  makeCacheSmaller: 'Make the cache smaller?',
  keptAboveRemovedNow: (bytes: Text, maxBytes: Text) =>
    `${bytes} are kept. What is above ${maxBytes} is removed now, what was used longest ago first, and has to be read again when it is needed. What is pinned stays.`,
  removeSet: 'Remove and set',
};

export const cacheMap = {
  overDaysAgo: 'over 30 days ago',
  lastUsed: (suffix: Text) => `, last used ${suffix}`,
  beginningsSeveralConversationsSh: 'Beginnings that several conversations share',
  untitled: 'Untitled',
  conversationsSize: 'Conversations by size',
  lastUsed2: 'Last used',
};

export const cacheSummary = {
  days: (daysSoFar: Text) => ` in ${daysSoFar} days`,
  far: ' so far',
  written: (writtenBytes: Text, far: Text) => `${writtenBytes} written${far}.`,
  assumesDriveStandsTimes: (driveWrites: Text, diskBytes: Text) =>
    `Assumes that the drive stands ${driveWrites} times its ${diskBytes}, which is little: its maker may say more. `,
  countsCacheWritesNot: 'Counts what the cache writes, not other programs.',
  overYears: 'over 1,000 years',
  years: (value: Text) => `~${value} years`,
  filesMadeRoomNewer: 'files made room for newer ones',
  conversationsNotWrittenNot:
    'conversations were not written, or not whole, to stay within a limit',
  conversationsNotWrittenBecause: 'conversations were not written, because the disk was slower',
  filesDamagedBeenRemoved: 'files were damaged and have been removed',
  filesAnotherVersionBeen: 'files were of another version and have been removed',
  filesCouldNotWritten: 'files could not be written',
  cacheDisk: 'Cache on disk',
  modelsReadKeptFiles:
    'What models have read, kept in files, so that it need not be read again. GB of 10^9 bytes. Measured.',
  of: (maxBytes: Text) => `of ${maxBytes}`,
  withoutCap: 'without a cap',
  usedCap: 'Used of the cap',
  of2: (bytes: Text, maxBytes: Text) => `${bytes} of ${maxBytes}`,
  oftenBeginningPromptRead:
    'How often the beginning of a prompt was read back from disk instead of being computed. Counted.',
  readBack: 'Read back',
  looks: (misses: Text) => `${misses} of the looks`,
  longComputingReadBack:
    'How long computing what was read back had taken. Measured when it was written.',
  timeSaved: 'Time saved',
  eachTime: (hits: Text) => `${hits} each time`,
  noneYet: 'none yet',
  writtenSinceMidnightMost:
    'Written since midnight, and the most that may be written in a day. From half of it on, only what was of use before is written. Measured.',
  writtenToday: 'Written today',
  of3: (dailyWriteBytes: Text) => `of ${dailyWriteBytes}`,
  noLimit: 'no limit',
  wear: 'Wear',
  year: (bytesAYear: Text) => `~${bytesAYear} a year`,
  drive: (years: Text) => `drive: ${years}`,
  tooEarlyTell: 'Too early to tell',
  worst: (atWorst: Text) => `at worst ${atWorst}`,
  freeSpaceDiskReported:
    'Free space of the disk, reported by the system, and how much of it the cache leaves alone.',
  diskFree: 'Disk free',
  leftAlone: (minFreeBytes: Text) => `${minFreeBytes} left alone`,
  noReserve: 'no reserve',
  memoryKeysValuesNo:
    'Memory for keys and values that no running request uses: kept of those that ended, or free for the next. GB of 2^30 bytes. Measured.',
  memory: 'In memory',
  whileLoaded: 'while loaded',
  madeWayWentWrong: 'What made way and what went wrong',
  lastError: (error: Text) => `The last error: ${error}`,
};

export const conversationDetails = {
  untitled: 'Untitled',
  length: 'Length',
  memory: 'In memory',
  them: (hotTokens: Text) => `${hotTokens} of them`,
  disk: 'On disk',
  sharedOthers: (sharedBytes: Text) => `, and ${sharedBytes} shared with others`,
  files: 'Files',
  written: 'Written',
  readBack: 'Read back',
  lastSaved: (hits: Text, suffix: Text, now: Text, secondsSaved: Text) =>
    `${hits} ${suffix}, last ${now}, ${secondsSaved} saved`,
  notYet: 'not yet',
  nothingYetWrittenMoment: 'nothing yet: it is written a moment after its answer',
  unpin: 'Unpin',
  pin: 'Pin',
  forget: 'Forget',
  chooseConversationSeeKept: 'Choose a conversation to see what is kept of it.',
};

export const conversationTable = {
  conversation: 'Conversation',
  firstWordsModelKeys: 'Its first words, the model, and how keys, values and states are stored.',
  tokens: 'Tokens',
  longMuchMemoryToo: 'How long it is, and how much of it is in memory too.',
  size: 'Size',
  filesAloneGbBytes: 'Of the files that are its alone. GB of 10^9 bytes.',
  lastUsed: 'Last used',
  whenLastReadBack: 'When it was last read back, or else when it was written.',
  hits: 'Hits',
  oftenReadBackDisk: 'How often it was read back from disk.',
  saved: 'Saved',
  longComputingReadBack: 'How long computing what was read back had taken.',
  keptConversations: 'Kept conversations',
  actions: 'Actions',
  untitled: 'Untitled',
  memoryOnly: 'in memory only',
  allMemory: 'all in memory',
  memory: (tokens: Text) => `${tokens} in memory`,
  unpin: 'Unpin',
  pin: 'Pin',
  unpinMayEvictedAgain: 'Unpin: may be evicted again',
  pinNeverEvicted: 'Pin: never evicted',
  forget: (title: Text) => `Forget: ${title}`,
  forgetConversation: 'Forget this conversation',
};

export const finishedList = {
  cancelled: ', cancelled',
  failed: ', failed',
  kept: (promptTokens: Text, promptTokens2: Text) => `${promptTokens}, ${promptTokens2} kept`,
  firstToken: 'first token',
  noneEndedSinceEngine:
    'None has ended since the engine started. Each one leaves a line here that says what was read again, and why.',
  noneEngineStoppedKnew: 'None. The engine is stopped, and what it knew of requests went with it.',
  promptTokens: 'Prompt tokens',
  wentThroughModel: 'Went through the model.',
  notReadAgainKeys: 'Not read again: keys and values were there.',
};

export const keptCard = {
  forgetEverything: 'Forget everything?',
  conversationsDiskPinnedOnes: (stored: Text, bytes: Text) =>
    `${stored} conversations on disk, ${bytes}, pinned ones too, and what memory holds. `,
  theyReadAgainWhen: 'They have to be read again when they go on.',
  forgetAll: 'Forget all',
  forgetConversation: 'Forget this conversation?',
  untitled: 'Untitled',
  thoughPinned: ', though it is pinned',
  filesAlone: (untitled: Text, bytes: Text, suffix: Text) =>
    `“${untitled}”: ${bytes} of files that are its alone${suffix}. `,
  memoryHoldsGoesToo: 'What memory holds of it goes too. It has to be read again when it goes on.',
  forget: 'Forget',
  nothingKeptYet: 'Nothing is kept yet',
  askSomethingMomentAfter:
    'Ask something: a moment after an answer ends, what the model has read is written here. The next request that begins the same, even after a restart, goes on from there instead of reading it all again.',
  filterWords: 'Filter by words',
  filterConversations: 'Filter conversations',
  conversations: (list: Text, rows: Text) => `${list} of ${rows} conversations`,
  forgetAll2: 'Forget all…',
  noConversationAllThese: 'No conversation has all of these words.',
  showAll: 'Show all',
};

export const rereadDetails = {
  waited: 'Waited',
  prompt: 'Prompt',
  read: (prefillSeconds: Text, prefillTokensPerSecond: Text) =>
    `${prefillSeconds}, ${prefillTokensPerSecond} read`,
  firstToken: 'First token',
  after: (firstTokenSeconds: Text) => `after ${firstTokenSeconds}`,
  answer: 'Answer',
  longestGap: (decodeSeconds: Text, longestGapSeconds: Text) =>
    `${decodeSeconds}, longest gap ${longestGapSeconds}`,
  blocks: 'Blocks',
  disk: (blockHits: Text, blockWrites: Text) => `${blockHits} from disk, ${blockWrites} to it`,
  request: 'Request',
  upTokenBothSame: (breakToken: Text) => `Up to token ${breakToken} both are the same.`,
  theyDifferFirstToken: 'They differ from the first token on.',
  known: (now: Text) => `What was known is from ${now}.`,
  was: 'Was',
  is: 'Is',
};
