import type { Text } from './text';

export const chat = {
  kvCache: 'What is a KV cache?',
  whatIs: 'What is 76 - 27?',
  tellMeStoryAbout: 'Tell me a story about Ada and a fox.',
  conversationsFileDamaged: 'This conversation’s file is damaged',
  canReadShownFile: (path: Text) =>
    `The readable part is shown, and the file is left unchanged: ${path}. Continuing here ` +
    'starts a new chat',
  closeList: 'Close the list',
  conversation: 'Conversation',
  conversations: 'Conversations',
  chat: 'Chat',
  readingConversation: 'Loading the conversation',
  ask: (name: Text) => `Ask ${name}`,
  runsComputerNothingYou: 'The model runs on this computer. Nothing you write leaves it.',
};

export const answerSettings = {
  jsonListRequestsTools: (example: Text) =>
    `Enter a JSON list in the form of a request’s tools: ${example}`,
  answerSettings: 'Answer settings',
  windowAsksNextQuestion:
    'Applies to this window’s chats from the next question. Leave empty for the model’s defaults.',
  models: 'Model default',
  tools: 'Tools',
  modelMayAskThese:
    'The model may call these functions. Calls are shown under the answer, never executed.',
};

export const answerStats = {
  countedPiecesTextArrived:
    'Counted from the received pieces of text, because the answer was stopped before its ' +
    'final count.',
  countedEngineReasoningIncluded: 'Counted by the engine, reasoning included.',
  tokensAfterFirstTime:
    'Tokens after the first, per second of their arrival; measured on this page.',
  promptKeptEarlierNot: 'Prompt tokens reused from the cache; counted by the engine.',
  cached: (cachedTokens: Text, promptTokens: Text) =>
    `${cachedTokens} of ${promptTokens} prompt tokens reused`,
  sendingFirstTokenMeasured: 'From sending to the first token; measured on this page.',
  firstAfter: (firstTokenSeconds: Text) => `first token in ${firstTokenSeconds}`,
};

export const composer = {
  askSomething: 'Ask something',
  message: 'Message',
  thinkingModelReasonsBefore:
    'Thinking: the model reasons before it answers. Better for hard questions, slower for ' +
    'easy ones.',
  thinking: (suffix: Text) => `Thinking ${suffix}`,
  answerSettingsChanged: 'Answer settings, changed',
  answerSettings: 'Answer settings',
  tokensChosenToolsWindow: 'Sampling and tools for this window’s chats.',
  escStops: 'Esc to stop',
  sends: (sendKey: Text) => `${sendKey} to send`,
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
  noConversationTheseWords: 'No chats match.',
  deleted: (untitled: Text) => `Deleted: ${untitled}`,
  undo: 'Undo',
  keptComputerOnly: 'Stored on this computer only.',
  deleteDamagedConversation: 'Delete the damaged conversation?',
  fileGoesCannotRead: (path: Text) =>
    `Its file is deleted, including the part that cannot be read: ${path}`,
};

export const message = {
  copied: 'Copied',
  notCopied: 'Not copied',
  copy: 'Copy',
  editYourQuestion: 'Edit your question',
  followsDropped: 'Later messages will be removed.',
  cancel: 'Cancel',
  askAgain: 'Ask again',
  yourQuestion: 'Your question',
  editQuestion: 'Edit this question',
  edit: 'Edit',
  retry: 'Retry',
  stopped: 'Stopped.',
  cutOffLongestAnswer: 'Stopped at the token limit.',
  answer: 'answer',
  goHereChatOwn: 'Continue from here in a new chat',
  branch: 'Branch',
};

export const reasoning = {
  reasoningModelWroteItself:
    'Reasoning: the model’s notes before its answer. They are not sent back with the next ' +
    'question.',
  thinking: 'Thinking',
  thought: 'Thought',
};

export const startOffer = {
  model: 'the model',
  loading: (t: Text) => `Loading ${t}`,
  youCanTypeAlready: (progress: Text) => `${progress}. You can start typing.`,
  noModelRunning: 'No model is running',
  needsFree: (name: Text, needBytes: Text, headroomBytes: Text) =>
    `${name} needs ~${needBytes}, ${headroomBytes} available.`,
  noModelFoundComputer: 'No model was found on this computer.',
  start: (name: Text) => `Start ${name}`,
};

export const toolCalls = {
  asks: 'Calls',
};

export const waiting = {
  readingPrompt: (doneTokens: Text, totalTokens: Text) =>
    `Reading the prompt, ${doneTokens} of ${totalTokens}`,
  waitingFirstToken: 'Waiting for the first token',
};
