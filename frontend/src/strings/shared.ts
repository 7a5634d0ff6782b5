import type { Text } from './text';

export const app = {
  dropModelsFolderImport: "Drop a model's folder to import it",
};

export const unauthorized = {
  pageNoKeyHeadroom: 'This page has no key to Headroom',
  openHeadroomMenuBar: 'Open Headroom from the menu bar, or use the address that',
  headroomServe: 'headroom serve',
  printedKeyLastPart: 'printed: the key is its last part.',
};

export const confirm = {
  cancel: 'Cancel',
};

export const connectionBanner = {
  connectionLost: 'Connection lost.',
  headroomStoppedAnsweringIf:
    'Headroom has stopped answering. If you closed it, start it again; this page comes back by itself.',
  nextTry: (seconds: Text) => `Next try in ${seconds}`,
  trying: 'Trying',
  tryNow: 'Try now',
};

export const copyButton = {
  copy: 'Copy',
  copied: 'Copied',
  notCopied: 'Not copied',
};

export const errorCard = {
  details: 'Details',
  dismiss: 'Dismiss',
};

export const memoryBar = {
  wiredLimitMuchGraphics: (wiredBytes: Text) =>
    `Wired limit, ${wiredBytes}: how much the graphics processor may keep in place.`,
  metalRecommendsMost: (recommendedBytes: Text) => `Metal recommends at most ${recommendedBytes}.`,
  allMemoryThere: (endBytes: Text) => `All the memory there is, ${endBytes}.`,
  of: (
    label: Text,
    figure: Text,
    totalBytes: Text,
    totalBytes2: Text,
    meaning: Text,
    source: Text,
  ) => `${label}: ${figure}, ${totalBytes} of ${totalBytes2}. ${meaning} ${source}`,
};

export const palette = {
  commands: 'Commands',
  command: 'Command',
  pagesModelsActions: 'Pages, models, actions',
  nothingCalledLike: 'Nothing is called like that.',
};

export const samplingFields = {
  least: (fromText: Text) => `at least ${fromText}`,
  to: (fromText: Text, to: Text) => `${fromText} to ${to}`,
  whole: 'whole ',
  number: (suffix: Text, range: Text) => `A ${suffix}number, ${range}.`,
  random: 'Random',
  fits: 'What fits',
};

export const sheet = {
  close: 'Close',
};

export const sidebar = {
  pages: 'Pages',
  connectionLost: 'Connection lost',
  notConnected: 'Not connected',
  room: (headroomBytes: Text) => `${headroomBytes} of room`,
};

export const timeChart = {
  lastMinutes: (join: Text) => `The last 10 minutes. ${join}.`,
  ago: (markedAt: Text) => `${markedAt} ago`,
  minAgo: '10 min ago',
  now: 'now',
};
