// The Chat page.
import type { Text } from './text';

export const chat = {
  title: 'Chat',
  suggestions: ['What is a KV cache?', 'What is 76 - 27?', 'Tell me a story about Ada and a fox.'],
  conversations: 'Conversations',
  conversation: 'Conversation',
  closeList: 'Close the list',
  loading: 'Loading the conversation',
  ask: (name: Text) => `Ask ${name}`,
  private: 'The model runs on this computer. Nothing you write leaves it.',
  /** In an empty private thread. */
  privateChat: 'Private chat',
  privateText:
    'Headroom keeps this chat only in this window. After you close or reload the window, ' +
    'nothing of it is left: no file, no cache on SSD, no log.',
  privateBadge: 'Private. Nothing of this chat is saved.',
  damaged: 'This conversation’s file is damaged',
  damagedFix: (path: Text) =>
    `The readable part is shown, and the file is left unchanged: ${path}. Continuing here ` +
    'starts a new chat',
  /** The title of a conversation that another window has changed too. */
  copyOf: (title: Text) => `${title} (copy)`,
};

/** An example of the tools field. */
const exampleTools =
  '[{"type": "function", "function": {"name": "weather", "parameters": ' +
  '{"type": "object", "properties": {"city": {"type": "string"}}}}}]';

export const answerSettings = {
  title: 'Answer settings',
  help: 'Applies to this window’s chats from the next question. Empty: the model’s defaults.',
  modelDefault: 'Model default',
  tools: 'Tools',
  exampleTools,
  toolsHelp:
    'The model may call these functions. Calls are shown under the answer, never executed.',
  notTools: `Enter a JSON list in the form of a request’s tools: ${exampleTools}`,
};

export const answerStats = {
  speedHelp:
    'Decode speed: tokens per second after the first token. Measured by the engine, or on this ' +
    'page until the engine reports it.',
  tokensHelp: 'Counted by the engine, reasoning included.',
  tokensHelpStopped:
    'Counted from the received pieces of text, because the answer was stopped before its ' +
    'final count.',
  reused: (cachedTokens: Text, promptTokens: Text) =>
    `${cachedTokens} of ${promptTokens} prompt tokens reused`,
  reusedHelp: 'Prompt tokens reused from the cache; counted by the engine.',
  drafts: (accepted: Text, drafts: Text) => `${accepted} of ${drafts} drafts accepted`,
  draftsHelp:
    'Tokens that were proposed ahead, and how many of them the model chose, too. They save time ' +
    'and change nothing in the answer.',
  markDraftsLabel: 'Mark accepted drafts in the answer',
  markDrafts: 'Mark',
  hideDrafts: 'Unmark',
  firstToken: (duration: Text) => `first token in ${duration}`,
  firstTokenHelp: 'From sending to the first token; measured on this page.',
};

export const composer = {
  placeholder: 'Ask something',
  message: 'Message',
  thinkingOn: 'Thinking on',
  thinkingOff: 'Thinking off',
  thinkingHelp:
    'Thinking: the model reasons before it answers. Better for hard questions, slower for ' +
    'easy ones.',
  answerSettings: 'Answer settings',
  answerSettingsChanged: 'Answer settings, changed',
  answerSettingsHelp: 'Sampling and tools for this window’s chats.',
  escStops: 'Esc to stop',
  keySends: (key: Text) => `${key} to send`,
  stop: 'Stop',
  send: 'Send',
};

export const conversationList = {
  newChat: 'New chat',
  newPrivateChat: 'New private chat',
  newPrivateHelp: 'A chat that is kept only in this window, and never saved.',
  private: (state: Text) => `Private, ${state}`,
  search: 'Search',
  searchLabel: 'Search conversations',
  label: 'Conversations',
  title: 'Title',
  untitled: 'Untitled',
  answering: 'Answering',
  damaged: (time: Text) => `Damaged, ${time}`,
  rename: 'Rename',
  renameLabel: (title: Text) => `Rename: ${title}`,
  delete: 'Delete',
  deleteLabel: (title: Text) => `Delete: ${title}`,
  noMatch: 'No chats match.',
  deleted: (title: Text) => `Deleted: ${title}`,
  undo: 'Undo',
  storedHere: 'Stored on this computer only.',
  deleteDamagedQuestion: 'Delete the damaged conversation?',
  deleteDamagedText: (path: Text) =>
    `Its file is deleted, including the part that cannot be read: ${path}`,
};

export const message = {
  copy: 'Copy',
  copied: 'Copied',
  notCopied: 'Not copied',
  yourQuestion: 'Your question',
  edit: 'Edit',
  editLabel: 'Edit this question',
  draft: 'Edit your question',
  laterRemoved: 'Later messages will be removed.',
  cancel: 'Cancel',
  askAgain: 'Ask again',
  retry: 'Retry',
  stopped: 'Stopped.',
  tokenLimit: 'Stopped at the token limit.',
  answer: 'answer',
  branch: 'Branch',
  branchHelp: 'Continue from here in a new chat',
};

export const reasoning = {
  thinking: (tokens: Text) => `Thinking, ${tokens}`,
  thought: (tokens: Text, duration: Text) => `Thought, ${tokens}, ${duration}`,
  help:
    'Reasoning: the model’s notes before its answer. They are not sent back with the next ' +
    'question.',
};

export const startOffer = {
  theModel: 'the model',
  loading: (name: Text) => `Loading ${name}`,
  typeAlready: (progress: Text) => `${progress}. You can start typing.`,
  noModelRunning: 'No model is running',
  noModelFound: 'No model was found on this computer.',
  needs: (name: Text, needBytes: Text, availableBytes: Text) =>
    `${name} needs ~${needBytes}, ${availableBytes} available.`,
  start: (name: Text) => `Start ${name}`,
};

export const toolCalls = {
  calls: 'Calls',
};

export const waiting = {
  prefill: (done: Text, total: Text) => `Prefill, ${done} of ${total}`,
  firstToken: 'Waiting for the first token',
};
