// The Agents page.
import type { Text } from './text';

export const agentsPage = {
  title: 'Agents',
  intro:
    'Let coding agents on this computer use Headroom. You see every change before it is written, ' +
    'and can undo it.',
  model: 'Model',
  address: (url: Text) => `at ${url}`,
  noModel: 'There is no model yet. Get one on the Models page.',
  list: 'Agents',
  written: (agent: Text) => `${agent} is set up.`,
  keyMade: (agent: Text) => `An API key for ${agent} was made.`,
  undone: (agent: Text) => `${agent} is as it was before.`,
  launched: (agent: Text) => `A terminal with ${agent} was opened.`,
};

export const agentRow = {
  states: {
    notWritten: 'Not set up',
    current: 'Set up',
    outdated: 'Out of date',
    edited: 'Changed since',
    manual: 'By hand',
  },
  stateHelp: {
    notWritten: 'The agent does not use Headroom, unless it is launched from here.',
    current: 'The agent’s configuration has this address and model.',
    outdated: 'Address, model or API key have changed since the agent was set up.',
    edited: 'What Headroom has written was changed by you or another program.',
    manual: 'The agent’s settings cannot be written from outside.',
  },
  found: (program: Text) => `Found: ${program}`,
  notFound: 'Not found on this computer',
  key: (name: Text) => `API key “${name}”`,
  setUp: 'Set Up…',
  update: 'Update…',
  show: 'Show…',
  steps: 'Show Steps…',
  undo: 'Undo…',
  launch: 'Launch in Terminal…',
  label: (action: Text, agent: Text) => `${action} ${agent}`,
  docs: 'Documentation',
  docsLabel: (agent: Text) => `${agent}’s documentation`,
};

export const agentSheet = {
  titles: {
    write: (agent: Text) => `Set up ${agent}`,
    undo: (agent: Text) => `Undo the set-up of ${agent}`,
    launch: (agent: Text) => `Launch ${agent}`,
  },
  changes: (path: Text) => `This changes ${path}.`,
  creates: (path: Text) => `This makes the file ${path}.`,
  deletes: (path: Text) => `This removes ${path}, which was not there before.`,
  nothing: (path: Text) => `Nothing changes in ${path}: it has these settings already.`,
  leadsTo: (path: Text) => `The path is a link to ${path}.`,
  newKey: (name: Text) =>
    `The server needs an API key, so the key “${name}” is made. Settings lists it.`,
  difference: 'Changes of the file',
  kinds: { same: '', added: 'added: ', removed: 'removed: ', gap: '' },
  gap: '…',
  steps: 'Then:',
  stepsOnly: 'Headroom cannot write these settings. To set them yourself:',
  write: 'Write',
  makeKey: 'Make the API Key',
  undo: 'Undo',
  launch: 'Launch',
  cancel: 'Cancel',
  close: 'Done',
  lookAgain: 'Look Again',
  launchHelp:
    'A terminal runs this. The agent’s own configuration stays as it is. If the server needs an ' +
    'API key, one is made for the agent.',
  command: 'Command',
  folder: 'Project folder',
  folderHelp: 'The whole path; empty: your home folder.',
  choose: 'Choose…',
};
