import type { Text } from './text';

export const chat = {
  kvCache: 'What is a KV cache?',
  whatIs: 'What is 76 - 27?',
  tellMeStoryAbout: 'Tell me a story about Ada and a fox.',
  conversationsFileDamaged: 'This conversation’s file is damaged',
  canReadShownFile: (path: Text) =>
    `What can be read is shown, and the file stays as it is: ${path}. If you go on here, that becomes a chat of its own`,
  closeList: 'Close the list',
  conversation: 'Conversation',
  conversations: 'Conversations',
  chat: 'Chat',
  readingConversation: 'Reading the conversation',
  ask: (name: Text) => `Ask ${name}`,
  runsComputerNothingYou: 'It runs on this computer. Nothing you write leaves it.',
};

export const answerSettings = {
  jsonListRequestsTools: (example: Text) => `A JSON list, as a request’s tools has it: ${example}`,
  answerSettings: 'Answer settings',
  windowAsksNextQuestion:
    'For what this window asks, from the next question on. Empty: as the model’s own settings say, on the Models page.',
  models: 'The model’s',
  tools: 'Tools',
  modelMayAskThese:
    'The model may ask for these; what it asks for is shown under the answer, and nothing is run.',
};

export const answerStats = {
  countedPiecesTextArrived:
    'Counted by the pieces of text that arrived, because the answer was stopped before its count came.',
  countedEngineReasoningIncluded: 'Counted by the engine, reasoning included.',
  tokensAfterFirstTime:
    'Tokens after the first, by the time they took to arrive; measured on this page.',
  promptKeptEarlierNot:
    'Of the prompt, what was kept from earlier and not read again; counted by the engine.',
  cached: (cachedTokens: Text, promptTokens: Text) => `${cachedTokens} of ${promptTokens} cached`,
  sendingFirstTokenMeasured: 'From sending to the first token; measured on this page.',
  firstAfter: (firstTokenSeconds: Text) => `first after ${firstTokenSeconds}`,
};

export const composer = {
  askSomething: 'Ask something',
  message: 'Message',
  thinkingModelReasonsBefore:
    'Thinking: the model reasons before it answers. Better for hard questions, slower for easy ones.',
  thinking: (suffix: Text) => `Thinking ${suffix}`,
  answerSettingsChanged: 'Answer settings, changed',
  answerSettings: 'Answer settings',
  tokensChosenToolsWindow: 'How tokens are chosen, and tools, for what this window asks.',
  escStops: 'Esc stops',
  sends: (sendKey: Text) => `${sendKey} sends`,
  stop: 'Stop',
  send: 'Send',
};

export const conversationList = {
  newChat: 'New chat',
  search: 'Search',
  searchConversations: 'Search conversations',
  conversations: 'Conversations',
  title: 'Title',
  untitled: 'Untitled',
  answering: 'Answering',
  damaged: 'Damaged, ',
  rename: (title: Text) => `Rename: ${title}`,
  rename2: 'Rename',
  deleteLabel: (title: Text) => `Delete: ${title}`,
  delete2: 'Delete',
  noConversationTheseWords: 'No conversation has these words.',
  deleted: (untitled: Text) => `Deleted: ${untitled}`,
  undo: 'Undo',
  keptComputerOnly: 'Kept on this computer only.',
  deleteDamagedConversation: 'Delete the damaged conversation?',
  fileGoesCannotRead: (path: Text) => `Its file goes, with what cannot be read in it: ${path}`,
};

export const message = {
  copied: 'Copied',
  notCopied: 'Not copied',
  copy: 'Copy',
  editYourQuestion: 'Edit your question',
  followsDropped: 'What follows is dropped.',
  cancel: 'Cancel',
  askAgain: 'Ask again',
  yourQuestion: 'Your question',
  editQuestion: 'Edit this question',
  edit: 'Edit',
  retry: 'Retry',
  stopped: 'Stopped.',
  cutOffLongestAnswer: 'Cut off at the longest answer that is set, or at the end of the context.',
  answer: 'answer',
  goHereChatOwn: 'Go on from here in a chat of its own',
  branch: 'Branch',
};

export const reasoning = {
  reasoningModelWroteItself:
    'Reasoning: what the model wrote for itself before the answer. It is not sent back with the next question.',
  thinking: 'Thinking',
  thought: 'Thought',
};

export const startOffer = {
  model: 'the model',
  loading: (t: Text) => `Loading ${t}`,
  youCanTypeAlready: (progress: Text) => `${progress}. You can type already.`,
  noModelRunning: 'No model is running',
  needsFree: (name: Text, needBytes: Text, headroomBytes: Text) =>
    `${name} needs ~${needBytes}, ${headroomBytes} free.`,
  noModelFoundComputer: 'No model was found on this computer.',
  start: (name: Text) => `Start ${name}`,
};

export const toolCalls = {
  asks: 'Asks for',
};

export const waiting = {
  readingPrompt: (doneTokens: Text, totalTokens: Text) =>
    `Reading the prompt, ${doneTokens} of ${totalTokens}`,
  waitingFirstToken: 'Waiting for the first token',
};
