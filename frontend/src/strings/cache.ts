import type { Text } from './text';

export const cache = {
  conversations: 'Conversations',
  requests: 'Requests',
  limits: 'Limits',
  nothingKeptDisk: 'The disk cache is not working',
  freeFolderChooseAnother: (dir: Text) =>
    `Make the folder ${dir} available, or choose another one under Limits, then restart Headroom`,
  cache: 'Cache',
  cacheDiskOff: 'The disk cache is off',
  turnedOffCommandLine: 'A command-line flag turned it off.',
  turnedNextStartHeadroom: 'It turns on when Headroom restarts.',
  modelsReadKeptMemory: (suffix: Text, suffix2: Text) =>
    `Prompts are cached in memory only, until the engine stops. ${suffix} ${suffix2}`,
  cacheNextStartHeadroom: 'The cache turns on when Headroom restarts.',
  turn: 'Turn on',
  tryAgain: 'Try again',
  keptWhyReadAgain: 'Cached conversations, requests and limits',
  show: 'Show',
  serverNoSettingsChange: 'This server has no cache settings.',
};

export const cacheLimits = {
  most: 'Maximum size',
  allFilesTogether: 'All files together.',
  leaveFree: 'Keep free',
  diskEverythingElse: 'Disk space left for everything else.',
  writeDay: 'Daily write limit',
  mostSpareDrive: 'Spares the drive.',
  notSizeTypeExample: 'Not a size. Enter for example 15 GB, none, or nothing for the default.',
  limitHoldsNow: 'Saved.',
  newFolderUsedNext: 'Saved. The new folder is used when Headroom restarts.',
  nothingChanges: 'Nothing changes.',
  cacheNextStartHeadroom: (suffix: Text) => `The cache turns ${suffix} when Headroom restarts.`,
  keepConversationsDisk: 'Cache conversations on disk',
  setCommandLine: 'Set by a command-line flag.',
  turnedNextStartHeadroom: (suffix: Text) => `Turns ${suffix} when Headroom restarts.`,
  readSurvivesRestartChange:
    'Prompts are reused after a restart. A change takes effect when Headroom restarts.',
  noLimit: 'no limit',
  defaultLabel: (now: Text) => `Default: ${now}.`,
  default2: 'Default',
  folder: 'Folder',
  usedNextStartKept: 'Used when Headroom restarts. Cached conversations stay in the old folder.',
  changeHoldsNextStart:
    'A change takes effect when Headroom restarts. Cached conversations stay in the old folder.',
  moveKept: 'Move the cache',
  movingSeeAbove: 'Moving: see above.',
  anotherFolderDiskNow:
    'Moves the cache to another folder or disk now. The model reloads once it is idle.',
  move: 'Move…',
  folderMove: 'Folder to move to',
  move2: 'Move',
  cancel: 'Cancel',
  before: 'Restored.',
  undo: 'Undo',
  makeCacheSmaller: 'Make the cache smaller?',
  keptAboveRemovedNow: (bytes: Text, maxBytes: Text) =>
    `The cache holds ${bytes}. Headroom deletes the least recently used until ${maxBytes} is ` +
    'left. Pinned ones stay.',
  removeSet: 'Delete and apply',
};

export const cacheMap = {
  overDaysAgo: 'over 30 days ago',
  lastUsed: (suffix: Text) => `, last used ${suffix}`,
  beginningsSeveralConversationsSh: 'Shared prompt prefixes',
  untitled: 'Untitled',
  conversationsSize: 'Conversations by size',
  lastUsed2: 'Last used',
};

export const cacheSummary = {
  days: (daysSoFar: Text) => ` in ${daysSoFar} days`,
  far: ' so far',
  written: (writtenBytes: Text, far: Text) => `${writtenBytes} written${far}.`,
  assumesDriveStandsTimes: (driveWrites: Text, diskBytes: Text) =>
    `Assumes that the drive endures ${driveWrites} times its ${diskBytes} of writes, a low ` +
    'value; its maker may promise more. ',
  countsCacheWritesNot: 'Counts writes of the cache, not of other apps.',
  overYears: 'over 1,000 years',
  years: (value: Text) => `~${value} years`,
  filesMadeRoomNewer: 'files were evicted for newer ones',
  conversationsNotWrittenNot: 'conversations were not written in full, to stay within a limit',
  conversationsNotWrittenBecause: 'conversations were not written because the disk was too slow',
  filesDamagedBeenRemoved: 'damaged files were removed',
  filesAnotherVersionBeen: 'files of another version were removed',
  filesCouldNotWritten: 'files could not be written',
  cacheDisk: 'Disk cache',
  modelsReadKeptFiles:
    'Keys and values of processed prompts, stored in files for reuse. GB of 10^9 bytes. Measured.',
  of: (maxBytes: Text) => `of ${maxBytes}`,
  withoutCap: 'no limit',
  usedCap: 'Disk cache size',
  oftenBeginningPromptRead:
    'How often a prompt prefix was read from disk instead of being computed. Counted.',
  diskHits: 'Disk hits',
  hitRate: (share: Text) => `${share} hit rate`,
  longComputingReadBack:
    'The time that computing the reused tokens took. Measured when they were written.',
  timeSaved: 'Time saved',
  eachTime: (hits: Text) => `${hits} each time`,
  noneYet: 'none yet',
  writtenSinceMidnightMost:
    'Written since midnight, and the daily limit. Above half of it, only conversations that ' +
    'were reused before are written. Measured.',
  writtenToday: 'Written today',
  of3: (dailyWriteBytes: Text) => `of ${dailyWriteBytes}`,
  noLimit: 'no limit',
  wear: 'Wear',
  year: (bytesAYear: Text) => `~${bytesAYear} a year`,
  drive: (years: Text) => `drive: ${years}`,
  tooEarlyTell: 'Too early to tell',
  worst: (atWorst: Text) => `at least ${atWorst}`,
  freeSpaceDiskReported:
    'Free disk space, reported by the system, and how much of it the cache keeps free.',
  diskFree: 'Disk free',
  leftAlone: (minFreeBytes: Text) => `keeps ${minFreeBytes} free`,
  noReserve: 'no reserve',
  memoryKeysValuesNo:
    'Memory for keys and values that no active request uses: cached or reserved. GB of 2^30 ' +
    'bytes. Measured.',
  memory: 'In memory',
  whileLoaded: 'while loaded',
  madeWayWentWrong: 'Evictions and errors',
  lastError: (error: Text) => `Last error: ${error}`,
};

export const conversationDetails = {
  untitled: 'Untitled',
  length: 'Length',
  memory: 'In memory',
  them: (memoryTokens: Text) => `${memoryTokens} of them`,
  disk: 'On disk',
  sharedOthers: (sharedBytes: Text) => `, and ${sharedBytes} shared with others`,
  files: 'Files',
  written: 'Written',
  diskHits: 'Disk hits',
  lastSaved: (hits: Text, suffix: Text, now: Text, secondsSaved: Text) =>
    `${hits} ${suffix}, last ${now}, ${secondsSaved} saved`,
  notYet: 'not yet',
  nothingYetWrittenMoment: 'nothing yet; written shortly after the answer',
  unpin: 'Unpin',
  pin: 'Pin',
  forget: 'Delete',
  chooseConversationSeeKept: 'Choose a conversation to see what is cached.',
};

export const conversationTable = {
  conversation: 'Conversation',
  firstWordsModelKeys: 'First words, model and cache format.',
  tokens: 'Tokens',
  longMuchMemoryToo: 'Length, and the part that is also in memory.',
  size: 'Size',
  filesAloneGbBytes: 'Unshared files. GB of 10^9 bytes.',
  lastUsed: 'Last used',
  whenLastReadBack: 'When it was last reused, or else written.',
  hits: 'Hits',
  oftenReadBackDisk: 'How often it was read from disk.',
  saved: 'Saved',
  longComputingReadBack: 'The time that computing the reused tokens took.',
  keptConversations: 'Cached conversations',
  actions: 'Actions',
  untitled: 'Untitled',
  memoryOnly: 'in memory only',
  allMemory: 'all in memory',
  memory: (tokens: Text) => `${tokens} in memory`,
  unpin: 'Unpin',
  pin: 'Pin',
  unpinMayEvictedAgain: 'Unpin: allow eviction',
  pinNeverEvicted: 'Pin: never evicted',
  forget: (title: Text) => `Delete from cache: ${title}`,
  forgetConversation: 'Delete from cache',
};

export const finishedList = {
  cancelled: ', cancelled',
  failed: ', failed',
  kept: (promptTokens: Text, promptTokens2: Text) => `${promptTokens}, ${promptTokens2} reused`,
  firstToken: 'first token',
  noneEndedSinceEngine:
    'No finished requests yet. Each one is listed here with the tokens it computed again, and why.',
  noneEngineStoppedKnew: 'The engine is stopped; its request history is cleared.',
  promptTokens: 'Prompt tokens',
  wentThroughModel: 'Computed by the model.',
  notReadAgainKeys: 'Reused: keys and values were cached.',
};

export const keptCard = {
  forgetEverything: 'Clear the cache?',
  conversationsDiskPinnedOnes: (stored: Text, bytes: Text) =>
    `${bytes} of ${stored} conversations, pinned ones included, and the cache in memory are ` +
    'deleted. ',
  theyReadAgainWhen: 'Your chats stay; their prompts are computed again next time.',
  forgetAll: 'Clear cache',
  forgetConversation: 'Delete this conversation from the cache?',
  untitled: 'Untitled',
  thoughPinned: ', although it is pinned',
  filesAlone: (untitled: Text, bytes: Text, suffix: Text) =>
    `“${untitled}”: ${bytes} not shared with others${suffix}. `,
  memoryHoldsGoesToo:
    'Its cache in memory is deleted too. The chat stays; its prompt is computed again next time.',
  forget: 'Delete',
  nothingKeptYet: 'Nothing is cached yet',
  askSomethingMomentAfter:
    'Ask something. Shortly after an answer ends, its prompt is cached here. The next ' +
    'request with the same beginning continues from the cache, even after a restart.',
  filterWords: 'Filter by words',
  filterConversations: 'Filter conversations',
  conversations: (list: Text, rows: Text) => `${list} of ${rows} conversations`,
  forgetAll2: 'Clear cache…',
  noConversationAllThese: 'No conversations match.',
  showAll: 'Show all',
};

export const cacheMissDetails = {
  waited: 'Waited',
  prompt: 'Prompt',
  read: (prefillSeconds: Text, prefillTokensPerSecond: Text) =>
    `${prefillSeconds}, ${prefillTokensPerSecond}`,
  firstToken: 'First token',
  after: (firstTokenSeconds: Text) => `after ${firstTokenSeconds}`,
  answer: 'Answer',
  longestGap: (decodeSeconds: Text, longestGapSeconds: Text) =>
    `${decodeSeconds}, longest gap ${longestGapSeconds}`,
  blocks: 'Blocks',
  disk: (blockHits: Text, blockWrites: Text) => `${blockHits} read, ${blockWrites} written`,
  request: 'Request',
  upTokenBothSame: (firstDifference: Text) => `Identical up to token ${firstDifference}.`,
  theyDifferFirstToken: 'Different from the first token.',
  known: (now: Text) => `Compared with a prompt from ${now}.`,
  was: 'Was',
  is: 'Is',
};
