// Machines, on the Settings page.
import type { Text } from './text';

export const machinesCard = {
  title: 'Machines',
  help:
    'Other computers that run Headroom can use the models of this one, and this one theirs, ' +
    'after you have paired the two by a code.',
  share: 'Share this computer',
  shareHelp: 'Opens a port for machines that you pair. Nobody else can use it.',
  sharedAt: (port: Text) => `Machines that you pair can use this one, at port ${port}.`,
  fixed: 'Set on the command line.',
  showCode: 'Show a code',
  newCode: 'Show another code',
  hideCode: 'Hide',
  code: 'Code',
  typeIt: (address: Text) => `In Headroom on the other computer, type ${address} and this code.`,
  otherAddresses: (list: Text) => `Other addresses of this computer: ${list}`,
  left: (time: Text) => `It expires in ${time}.`,
  tries: (count: Text) => `Somebody typed a wrong code. ${count} tries are left.`,
  oneTry: 'Somebody typed a wrong code. One try is left.',
  noTries: 'No try is left. A machine that is pairing now may still finish.',
  paired: (machine: Text) => `${machine} was paired.`,
  expired: 'The code has expired.',
  voided: 'The code is not valid any more.',
  users: 'May use this computer',
  noUsers: 'No machine was paired with this one yet.',
  neverUsed: 'Not used yet',
  lastUsed: (time: Text) => `Last used ${time}`,
  certificate: (digits: Text) => `Certificate ${digits}`,
  off: 'Off',
  models: (n: number) => (n === 1 ? '1 model' : `${n} models`),
  remove: 'Remove…',
  removeLabel: (machine: Text) => `Remove… ${machine}`,
  removeNow: 'Remove',
  removeUser: (machine: Text) => `Remove ${machine}?`,
  userConsequences:
    'It cannot use this computer any more, and its running requests end. Pair it again to undo ' +
    'this.',
  usedConsequences:
    'This computer cannot use it any more, until it is paired again. Remove this computer there, ' +
    'too.',
  removed: (machine: Text) => `${machine} was removed.`,
  used: 'This computer may use',
  noUsed: 'No other machine can be used from this one yet.',
  pair: 'Pair with another machine',
  pairHelp: 'Share the other one in its Settings, and have it show a code.',
  find: 'Find machines on this network',
  findHelp:
    'While this is on, this computer announces its name and port on the network if it is shared, ' +
    'and nothing else.',
  found: 'Found on this network',
  noneFound: 'None was found yet.',
  choose: 'Choose',
  chooseLabel: (machine: Text) => `Choose ${machine}`,
  address: 'Address',
  addressPlaceholder: 'studio.local',
  codePlaceholder: '1234 5678',
  both: 'The other machine may use this one, too',
  bothHelp: 'If it asks for that when it shows the code.',
  askBoth: 'Use the other machine, too',
  join: 'Pair',
  joining: 'Pairing…',
  joined: (machine: Text) => `${machine} can be used from this computer.`,
  joinedBoth: (machine: Text) => `${machine} and this computer can use each other.`,
};
