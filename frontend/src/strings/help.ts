// The help and shortcuts sheets.
import { commandKey } from '../lib/host';
import type { Text } from './text';

export const helpSheet = {
  title: 'Help',
  slow: {
    title: 'Why is it slow?',
    now: 'Right now:',
    nothing: 'Nothing slows answers down right now.',
    general:
      'Decoding reads the whole model for each token, so a model of half the size is about twice ' +
      'as fast. A long prompt is read first, at the speed that Overview shows as prefill. What ' +
      'is cached is not read again.',
  },
  again: {
    title: 'Why was this read again?',
    none: 'No finished request had to read anything again.',
    last: (label: Text, tokens: Text) => `Last time: ${label}, ${tokens}.`,
    general:
      'A prompt is reused up to the first token that differs from an earlier one. A date, a ' +
      'counter or reordered tools at the beginning make all that follows new. The Cache page ' +
      'shows the place in each request, and what to change.',
    open: 'Open Cache',
  },
  wired: {
    title: 'What is the wired limit?',
    limit: (bytes: Text) => `It is ${bytes} here.`,
    systemDefault: 'It is the system’s default here.',
    general:
      'macOS keeps the GPU’s memory in place, and limits how much that may be. A model that ' +
      'needs more does not run on the GPU, even if memory is free. The Memory page says which ' +
      'limit is safe, and can change it.',
    open: 'Open Memory',
  },
  reasons: {
    swap: (bytes: Text) => `Memory is short: ${bytes} are in swap. Unload a model on Memory.`,
    pressure: 'Memory is short. Unload a model on Memory, or close other apps.',
    processor: 'The model runs on the processor, not on a GPU.',
    busy: (requests: Text) => `${requests} requests share the engine.`,
    prefill: (tokens: Text) => `A prompt of ${tokens} is being read.`,
    loading: 'A model is being loaded.',
    unloaded: 'The model was unloaded because it was idle. The next request loads it again.',
  },
};

export const shortcutSheet = {
  title: 'Keyboard shortcuts',
  groups: { everywhere: 'Everywhere', window: 'In the window', chat: 'Chat', lists: 'Lists' },
  texts: {
    page: 'Open a page, in the order of the sidebar',
    palette: 'Search pages, models and actions',
    shortcuts: 'Show these shortcuts',
    close: 'Close a sheet, or stop an answer',
    send: 'Send',
    line: 'Break the line',
    settings: 'Open Settings',
    newChat: 'New chat',
    closeWindow: 'Close the window',
    zoom: 'Larger, smaller, actual size',
    find: 'Find in the chat, or search the list',
    move: 'Move in a list',
    remove: 'Forget the selected conversation on Cache',
    trash: 'Move the selected model to the Trash',
  },
  keys: {
    page: `${commandKey}1 … ${commandKey}6`,
    palette: `${commandKey}K`,
    shortcuts: `${commandKey}/`,
    close: 'Escape',
    send: 'Return',
    line: 'Shift Return',
    settings: `${commandKey},`,
    newChat: `${commandKey}N`,
    closeWindow: `${commandKey}W`,
    zoom: `${commandKey}+ ${commandKey}− ${commandKey}0`,
    find: `${commandKey}F`,
    move: '↑ ↓',
    remove: 'Delete',
    trash: 'Delete',
  },
};

export const helpCard = {
  title: 'Help',
  help: 'Why is it slow? Why was this read again?',
  helpText: 'Answers to common questions, with what applies right now.',
  open: 'Open help',
  shortcuts: 'Keyboard shortcuts',
  shortcutsText: `Also with ${commandKey}/.`,
  show: 'Show shortcuts',
  report: 'Report a bug',
  reportText: 'Collects settings without secrets, the log and facts about this computer in a file.',
  prepare: 'Prepare report…',
};
