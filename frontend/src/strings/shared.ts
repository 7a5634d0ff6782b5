import type { Text } from './text';

export const app = {
  dropModelsFolderImport: 'Drop a model folder to import it',
};

export const unauthorized = {
  pageNoKeyHeadroom: 'This page is not connected to Headroom',
  openHeadroomMenuBar: 'Open Headroom from the menu bar, or use the address that',
  headroomServe: 'headroom serve',
  printedKeyLastPart: 'printed, with the token at its end.',
};

export const confirm = {
  cancel: 'Cancel',
};

export const connectionBanner = {
  connectionLost: 'Connection lost.',
  headroomStoppedAnsweringIf:
    'Headroom does not answer. If you quit it, start it again; this page reconnects by itself.',
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
    `Wired limit, ${wiredBytes}: how much memory macOS lets the GPU use.`,
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
  nothingCalledLike: 'No results.',
};

export const samplingFields = {
  least: (fromText: Text) => `at least ${fromText}`,
  to: (fromText: Text, to: Text) => `${fromText} to ${to}`,
  whole: 'whole ',
  number: (suffix: Text, range: Text) => `A ${suffix}number, ${range}.`,
  random: 'Random',
  fits: 'Automatic',
};

export const sheet = {
  close: 'Close',
};

export const sidebar = {
  pages: 'Pages',
  connectionLost: 'Connection lost',
  notConnected: 'Not connected',
  room: (headroomBytes: Text) => `${headroomBytes} available`,
};

export const timeChart = {
  ago: (markedAt: Text) => `${markedAt} ago`,
  minAgo: '10 min ago',
  now: 'now',
};
