// The Cache page.
import type { CacheMissCause } from '../lib/backend/types';
import { counted, type Text } from './text';

export const cache = {
  title: 'Cache',
  conversations: 'Conversations',
  requests: 'Requests',
  limits: 'Limits',
  tabs: 'Show',
  card: 'Cached conversations, requests and limits',
  notWorking: 'The disk cache is not working',
  makeFolderAvailable: (dir: Text) =>
    `Make the folder ${dir} available; or choose another one under Limits and restart Headroom`,
  off: 'The disk cache is off',
  memoryOnly: 'Prompts are cached in memory only, until the engine stops.',
  offByFlag: 'A command-line flag turned the disk cache off.',
  onAfterRestart: 'It turns on when Headroom restarts.',
  turnOn: 'Turn on',
  turnsOn: 'The disk cache turns on when Headroom restarts.',
  tryAgain: 'Try again',
  noSettings: 'This server has no cache settings.',
  stale: 'The model does not answer. What it has in memory is shown as it was some time ago.',
  removing: 'The removal goes on until the model has freed its memory.',
};

/** The result of an action, beside the tabs. */
export const cacheDone = {
  pinned: 'Pinned: it is never evicted.',
  unpinned: 'Unpinned: it may be evicted.',
  moving: (bytes: Text, dir: Text) => `Moving ${bytes} to ${dir}.`,
  nothingDeleted: 'Nothing to delete.',
  deletedLater: 'Deleted.',
  deleted: (files: Text, bytes: Text) => `Deleted ${counted(files, 'file', 'files')}, ${bytes}.`,
  deletedWithMemory: (files: Text, bytes: Text, memoryBytes: Text) =>
    `Deleted ${counted(files, 'file', 'files')}, ${bytes}, and ${memoryBytes} in memory.`,
};

export const cacheLimits = {
  on: 'on',
  off: 'off',
  cacheOnDisk: 'Cache conversations on disk',
  setByFlag: 'Set by a command-line flag.',
  turnsOnRestart: (onOff: Text) => `Turns ${onOff} when Headroom restarts.`,
  cacheOnDiskHelp:
    'Prompts are reused after a restart. A change takes effect when Headroom restarts.',
  nothingChanges: 'Nothing changes.',
  cacheTurnsOnRestart: (onOff: Text) => `The disk cache turns ${onOff} when Headroom restarts.`,
  maximumSize: 'Maximum size',
  maximumSizeHelp: 'Of all files together.',
  keepFree: 'Keep free',
  keepFreeHelp: 'Disk space left for everything else.',
  dailyLimit: 'Daily write limit',
  dailyLimitHelp: 'Reduces wear of the drive.',
  notASize: 'Not a size. Enter for example 15 GB, none, or nothing for the default.',
  noLimit: 'no limit',
  defaultIs: (value: Text) => `Default: ${value}.`,
  default: 'Default',
  folder: 'Folder',
  folderAfterRestart: 'Used when Headroom restarts. Cached conversations stay in the old folder.',
  folderHelp:
    'A change takes effect when Headroom restarts. Cached conversations stay in the old folder.',
  folderSaved: 'Saved. The new folder is used when Headroom restarts.',
  saved: 'Saved.',
  moveCache: 'Move the cache',
  moveHelp: 'Moves the cache to another folder or disk now. The model reloads once it is idle.',
  moveRunning: 'The move is running; see its progress above.',
  chooseAndMove: 'Move…',
  moveTo: 'Folder to move to',
  moveToExample: '/Volumes/Disk',
  move: 'Move',
  cancel: 'Cancel',
  undo: 'Undo',
  restored: 'Restored.',
  shrinkQuestion: 'Make the cache smaller?',
  shrinkText: (bytes: Text, maxBytes: Text) =>
    `The cache holds ${bytes}. Headroom deletes the least recently used conversations until ` +
    `${maxBytes} is left. Pinned ones stay.`,
  shrink: 'Delete and apply',
};

/** How long ago a conversation was last used, in the order of the treemap's shades. */
export const ages = {
  labels: ['today', 'this week', 'this month', 'older'],
  /** The same, after "last used". */
  lastUsed: ['today', 'this week', 'this month', 'over 30 days ago'],
};

export const cacheMap = {
  label: 'Conversations by size',
  legend: 'Last used',
  untitled: 'Untitled',
  shared: 'Shared prompt prefixes',
  smaller: (count: Text) => `${count} smaller`,
  group: (name: Text, bytes: Text) => `${name}: ${bytes}`,
  cell: (title: Text, bytes: Text) => `${title}, ${bytes}`,
  cellWithAge: (title: Text, bytes: Text, age: Text) => `${title}, ${bytes}, last used ${age}`,
};

export const cacheSummary = {
  title: 'Disk cache',
  titleHelp:
    'Keys and values of processed prompts, stored in files for reuse. GB of 10^9 bytes. Measured.',
  ofMaximum: (maxBytes: Text) => `of ${maxBytes}`,
  unlimited: 'no limit',
  meter: 'Disk cache size',
  diskHits: 'Disk hits',
  diskHitsHelp: 'How often a prompt prefix was read from disk instead of being computed. Counted.',
  times: (hits: Text) => counted(hits, 'time', 'times'),
  hitRate: (share: Text) => `${share} hit rate`,
  timeSaved: 'Saved by disk',
  timeSavedHelp: 'The time that computing the reused tokens took. Measured when they were written.',
  eachTime: (duration: Text) => `${duration} each time`,
  noHits: 'none yet',
  writtenToday: 'Written today',
  writtenTodayHelp:
    'Written since midnight, and the daily limit. Above half of it, only conversations that ' +
    'were reused before are written. Measured.',
  ofDailyLimit: (dailyWriteBytes: Text) => `of ${dailyWriteBytes}`,
  noDailyLimit: 'no limit',
  wear: 'Wear',
  wearHelp: (written: Text, assumption: Text) => `${written} ${assumption} Estimated.`,
  writtenInDays: (bytes: Text, days: Text) =>
    `${bytes} written in ${counted(days, 'day', 'days')}.`,
  writtenSoFar: (bytes: Text) => `${bytes} written so far.`,
  driveAssumption: (driveWrites: Text, diskBytes: Text) =>
    `Assumes that the drive endures ${driveWrites} full writes of its ${diskBytes}, a low ` +
    'value; its maker may promise more. ',
  onlyCacheWrites: 'Counts writes of the cache, not of other apps.',
  perYear: (bytesPerYear: Text) => `~${bytesPerYear} per year`,
  driveLife: (years: Text) => `drive: ${years}`,
  over1000Years: 'over 1,000 years',
  years: (years: Text) => `~${years} years`,
  tooEarly: 'Too early to tell',
  diskFree: 'Disk free',
  diskFreeHelp: 'Free disk space, reported by the system, and how much of it the cache keeps free.',
  keepsFree: (minFreeBytes: Text) => `keeps ${minFreeBytes} free`,
  noReserve: 'no reserve',
  inMemory: 'In memory',
  inMemoryHelp:
    'Memory for keys and values that no active request uses: cached or reserved. GB of 2^30 ' +
    'bytes. Measured.',
  whileLoaded: 'while loaded',
  events: 'Evictions and errors',
  evicted: 'files were evicted for newer ones',
  overLimit: 'conversations were not written in full, to stay within a limit',
  diskTooSlow: 'conversations were not written because the disk was too slow',
  damagedRemoved: 'damaged files were removed',
  otherVersionRemoved: 'files of another version were removed',
  notWritten: 'files could not be written',
  lastError: (error: Text) => `Last error: ${error}`,
};

export const conversationDetails = {
  choose: 'Choose a conversation to see what is cached.',
  untitled: 'Untitled',
  length: 'Length',
  inMemory: 'In memory',
  tokensOfThem: (memoryTokens: Text) => `${memoryTokens} of them`,
  nothing: 'nothing',
  onDisk: 'On disk',
  shared: (sharedBytes: Text) => `, and ${sharedBytes} shared with others`,
  notWrittenYet: 'nothing yet; written shortly after the answer',
  files: 'Files',
  blocks: (count: Text) => counted(count, 'block', 'blocks'),
  partialBlocks: (count: Text) => counted(count, 'partial block', 'partial blocks'),
  states: (count: Text) => counted(count, 'state', 'states'),
  written: 'Written',
  diskHits: 'Disk hits',
  hits: (hits: Text, last: Text, saved: Text) =>
    `${counted(hits, 'time', 'times')}, last ${last}, ${saved} saved`,
  noHits: 'not yet',
  pin: 'Pin',
  unpin: 'Unpin',
  delete: 'Delete',
};

export const conversationTable = {
  label: 'Cached conversations',
  conversation: 'Conversation',
  conversationHelp: 'First words, model and cache format.',
  tokens: 'Tokens',
  tokensHelp: 'Length, and the part that is also in memory.',
  size: 'Size',
  sizeHelp: 'Unshared files. GB of 10^9 bytes.',
  lastUsed: 'Last used',
  lastUsedHelp: 'When it was last reused, or else written.',
  hits: 'Hits',
  hitsHelp: 'How often it was read from disk.',
  saved: 'Saved',
  savedHelp: 'The time that computing the reused tokens took.',
  actions: 'Actions',
  untitled: 'Untitled',
  memoryOnly: 'in memory only',
  allInMemory: 'all in memory',
  inMemory: (share: Text) => `${share} in memory`,
  pin: (title: Text) => `Pin: ${title}`,
  unpin: (title: Text) => `Unpin: ${title}`,
  pinHelp: 'Pin: never evicted',
  unpinHelp: 'Unpin: allow eviction',
  delete: (title: Text) => `Delete from cache: ${title}`,
  deleteHelp: 'Delete from cache',
};

export const cachedConversations = {
  empty: 'Nothing is cached yet',
  emptyHelp:
    'Ask something. Shortly after an answer ends, its prompt is cached here. The next ' +
    'request with the same beginning continues from the cache, even after a restart.',
  filter: 'Filter',
  filterLabel: 'Filter conversations',
  found: (found: Text, all: Text) => `${found} of ${counted(all, 'conversation', 'conversations')}`,
  noMatch: 'No conversations match.',
  showAll: 'Show all',
  clear: 'Clear cache…',
  clearQuestion: 'Clear the cache?',
  clearText: (conversations: Text, bytes: Text) =>
    `${bytes} of ${counted(conversations, 'conversation', 'conversations')}, pinned ones ` +
    'included, and the cache in memory are deleted. Your chats stay; their prompts are computed ' +
    'again next time.',
  clearNow: 'Clear cache',
  deleteQuestion: 'Delete this conversation from the cache?',
  untitled: 'Untitled',
  deleteText: (title: Text, bytes: Text) =>
    `“${title}”: ${bytes} not shared with others. Its cache in memory is deleted too. The chat ` +
    'stays; its prompt is computed again next time.',
  deletePinnedText: (title: Text, bytes: Text) =>
    `“${title}” is pinned: ${bytes} not shared with others. Its cache in memory is deleted too. ` +
    'The chat stays; its prompt is computed again next time.',
  delete: 'Delete',
};

export const finishedList = {
  untitled: 'Untitled request',
  sender: (sender: Text, time: Text) => `${sender}, ${time}`,
  cancelled: (time: Text) => `${time}, cancelled`,
  failed: (time: Text) => `${time}, failed`,
  reused: (promptTokens: Text, share: Text) => `${promptTokens}, ${share} reused`,
  firstToken: 'first token',
  empty:
    'No finished requests yet. Each one is listed here with the tokens it computed again, and why.',
  emptyStopped: 'The engine is stopped; its request history is cleared.',
  legend: 'Prompt tokens',
  help: {
    memory: 'Reused: keys and values were in memory.',
    disk: 'Reused: keys and values were read from disk.',
    again: 'Computed before, and again: the cache was missed. Estimated.',
    new: 'Text that was not computed before.',
  },
};

/** The share of prompt tokens that the cache had. */
export const reuse = {
  title: 'Reused',
  parts: (memory: Text, disk: Text) => `memory ${memory}, disk ${disk}`,
  nothing: 'no requests yet',
  line: (share: Text, all: Text, memory: Text, disk: Text) =>
    `${share} of ${all} reused: ${memory} from memory, ${disk} from disk.`,
  again: (share: Text) => `${share} computed again.`,
  help:
    'Prompt tokens of all requests since Headroom started, and the part of them that the cache ' +
    'had in memory or on disk. Counted. Computed again: the cache was missed. Estimated.',
};

export const cacheMissDetails = {
  identicalUpTo: (token: Text) => `Identical up to token ${token}.`,
  differentFromStart: 'Different from the first token.',
  comparedWith: (time: Text) => `Compared with a prompt from ${time}.`,
  before: 'Before',
  now: 'Now',
  waited: 'Waited',
  prompt: 'Prompt',
  promptValue: (duration: Text, speed: Text) => `${duration}, ${speed}`,
  firstToken: 'First token',
  firstTokenValue: (duration: Text) => `after ${duration}`,
  answer: 'Answer',
  answerValue: (duration: Text, longestGap: Text) => `${duration}, longest gap ${longestGap}`,
  ahead: 'Decoded ahead',
  aheadValue: (accepted: Text, drafts: Text, perPass: Text, gained: Text) =>
    `${accepted} of ${drafts} drafts accepted, ${perPass} tokens a pass, about ${gained} as fast ` +
    'as without drafts',
  noDrafts: (why: Text) => `Not decoded ahead. ${why}`,
  blocks: 'Blocks',
  blocksValue: (read: Text, written: Text) => `${read} read, ${written} written`,
  request: 'Request',
};

/** Where the tokens of a prompt came from. */
export const promptParts = {
  memory: 'from memory',
  disk: 'from disk',
  again: 'computed again',
  new: 'new',
  unread: 'not reached',
};

/** The title of a private conversation, which is only in memory. */
export const privateTitle = 'Private';

/** Why a prompt was computed again. */
export const causes: Record<CacheMissCause, string> & { unknown: string } = {
  new_conversation: 'New conversation',
  continued: 'Continued from cache',
  head_changed: 'The beginning changed',
  date_changed: 'A date or time changed',
  counter_changed: 'A number or ID changed',
  tools_reordered: 'The tools were reordered',
  tools_changed: 'The tools changed',
  thinking_stripped: 'Reasoning dropped from history',
  message_edited: 'An earlier message was edited',
  retokenized: 'Same text, tokenized differently',
  evicted: 'Evicted to free memory',
  state_not_cached: 'No cached state at this point',
  cache_off: 'The cache is off',
  format_changed: 'The cache format changed',
  model_changed: 'Computed by another model',
  private: 'Private',
  unknown: 'Unknown',
};
