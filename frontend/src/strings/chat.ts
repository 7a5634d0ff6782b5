// The Chat page.
import type { Text } from './text';

export const chat = {
  answered: (answer: Text) => `Answer: ${answer}`,
  title: 'Chat',
  /** What the demo model can answer. */
  demoSuggestions: [
    'What is a KV cache?',
    'What is 76 - 27?',
    'Tell me a story about Ada and a fox.',
  ],
  suggestions: [
    'Explain how a heat pump works.',
    'Write a Python script that renames photos by date.',
    'Draft a friendly reminder of an unpaid invoice.',
  ],
  toEnd: 'Scroll to the end',
  /** While files are dragged over the page. */
  dropToAttach: 'Drop to attach to your question',
  conversations: 'Conversations',
  conversation: 'Conversation',
  messages: 'Messages',
  closeList: 'Close the list',
  loading: 'Loading the conversation',
  ask: (name: Text) => `Ask ${name}`,
  private: 'The model runs on this computer. Nothing you write leaves it.',
  demo: 'This is the demo model, a toy that knows a few facts and sums.',
  getModel: 'Get a real model',
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
  thisChat: 'This chat',
  sampling: 'Sampling',
  help: 'Applies to this window’s chats from the next question. Empty: the model’s defaults.',
  presetHelp: (name: Text) =>
    `Applies to this chat${name && `, which uses the preset “${name}”`}. ` +
    'Empty: the model’s defaults.',
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

/** A file that cannot be attached: what, why, and what to do. */
export const attachments = {
  tooLarge: (name: Text) => `${name} is too large to attach`,
  tooLargeWhy: 'The limit is 50 MB',
  tooLongWhy: 'Its text has more than a million characters, which no context holds',
  tooLongFix: 'Attach the part that you ask about.',
  empty: (name: Text) => `${name} has no text`,
  emptyPdfWhy: 'Its pages are pictures, as in a scan',
  emptyWhy: 'The file is empty',
  emptyFix: 'Attach another file, or paste its text.',
  unreadable: (name: Text) => `${name} cannot be attached`,
  lockedWhy: 'The PDF is protected by a password',
  damagedWhy: (cause: Text) => `The PDF cannot be read: ${cause}`,
  notTextWhy: 'It is neither a text nor a PDF',
  notTextFix: 'Attach a text, source code or a PDF.',
  pages: (pages: Text) => `${pages} pages`,
  page: '1 page',
  list: 'Attachments',
  remove: (name: Text) => `Remove: ${name}`,
  reading: (name: Text) => `Reading ${name}`,
};

export const chatHeader = {
  model: 'Model',
  noModel: 'No model',
  loads: 'Loads with the next question',
  loaded: 'Loaded',
  notLoaded: 'On this computer',
  systemPrompt: 'System prompt',
  preset: (name: Text) => `Preset: ${name}`,
  setupHelp: 'System prompt, presets and sampling of this chat.',
  more: 'More',
  find: 'Find in this chat',
  markdown: 'Export as Markdown…',
  json: 'Export as JSON…',
  exportFailed: 'The chat could not be exported.',
  exportFix: 'Choose another folder.',
};

export const setupFields = {
  preset: 'Preset',
  none: 'None',
  systemPrompt: 'System prompt',
  placeholder: 'You are a helpful assistant.',
  promptHelp: 'Sent before the first message. A change makes the next answer read the chat again.',
  save: 'Save as Preset…',
  name: 'Name of the preset',
  saveName: 'Save',
  cancel: 'Cancel',
  remove: 'Delete Preset',
};

export const findBar = {
  label: 'Find in this chat',
  placeholder: 'Find',
  next: 'Next match',
  previous: 'Previous match',
  close: 'Close',
  none: 'No matches',
  place: (place: Text, all: Text) => `${place} of ${all}`,
};

export const contextRing = {
  label: 'Context used',
  used: (share: Text) => `${share} of context`,
  help: (used: Text, all: Text) =>
    `This chat takes ${used} of ${all} tokens of the model’s context: the system prompt, all ` +
    'messages and the question in the field. A tilde marks an estimate.',
  soon: (used: Text, all: Text) =>
    `This chat takes ${used} of the context’s ${all} tokens. Start a new chat soon, or branch ` +
    'from an earlier answer.',
  full: (used: Text, all: Text) =>
    `This question does not fit: ${used} tokens, and the context has ${all}. Shorten it, start ` +
    'a new chat, or branch from an earlier answer.',
};

/** The Markdown file of a chat. */
export const exported = {
  untitled: 'Chat',
  systemPrompt: 'System prompt',
  question: 'You',
  answer: (model: Text) => (model ? `Answer (${model})` : 'Answer'),
  attachment: (name: Text) => `Attachment: ${name}`,
  call: (name: Text) => `Calls ${name}`,
};

export const composer = {
  placeholder: 'Ask something',
  attach: 'Attach files',
  attachHelp: 'Attach texts and PDFs. You can also drop or paste them.',
  message: 'Message',
  thinkingOn: 'Thinking on',
  thinkingOff: 'Thinking off',
  thinkingHelp:
    'Thinking: the model reasons before it answers. Better for hard questions, slower for ' +
    'easy ones.',
  answerSettings: 'Answer settings',
  answerSettingsChanged: 'Answer settings, changed',
  answerSettingsHelp: 'System prompt, presets, sampling and tools.',
  escStops: 'Esc to stop',
  keySends: '↩ to send, ⇧↩ for a new line',
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
  table: 'Table',
  done: 'Done',
  notDone: 'Not done',
  yourQuestion: 'Your question',
  edit: 'Edit',
  editLabel: 'Edit this question',
  draft: 'Edit your question',
  versionKept: 'The earlier version is kept.',
  showAll: 'Show all',
  showLess: 'Show less',
  cancel: 'Cancel',
  askAgain: 'Ask again',
  retry: 'Retry',
  retryWith: 'Retry with another model',
  versions: 'Versions',
  version: (version: Text, all: Text) => `${version} of ${all}`,
  previousVersion: 'Previous version',
  nextVersion: 'Next version',
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
