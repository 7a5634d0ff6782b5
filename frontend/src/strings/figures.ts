// The sentence that a screen reader says for each figure, with the numbers of the picture.
import { counted, type Text } from './text';

export const percent = {
  exactly: (percent: Text) => `${percent} percent`,
  lessThanOne: 'less than 1 percent',
};

export const memoryFigure = {
  part: (label: Text, bytes: Text, share: Text) => `${label} ${bytes} (${share})`,
  memory: (totalBytes: Text, parts: Text) => `Of ${totalBytes} of memory: ${parts}.`,
  wired: (bytes: Text) => ` The wired limit is ${bytes}.`,
  recommended: (bytes: Text) => ` Metal recommends at most ${bytes}.`,
  end: (bytes: Text) => ` This computer has ${bytes}.`,
};

export const needFigure = {
  needs: (need: Text, roomBytes: Text) => `It needs ~${need}, of ${roomBytes} available.`,
  downloaded: (percent: Text) => `${percent} of it is downloaded.`,
};

export const promptFigure = {
  prompt: (tokens: Text, parts: Text) => `Of a prompt of ${tokens}, ${parts}.`,
  memory: (tokens: Text) => `${tokens} came from memory`,
  disk: (tokens: Text) => `${tokens} came from disk`,
  again: (tokens: Text) => `${tokens} computed again`,
  new: (tokens: Text) => `${tokens} were computed`,
  unread: (tokens: Text) => `${tokens} were not reached`,
  progress: (done: Text, tokens: Text, percent: Text) =>
    `Prefill: ${done} of ${tokens} of the prompt, ${percent}.`,
  progressWithCache: (done: Text, tokens: Text, percent: Text, cached: Text) =>
    `Prefill: ${done} of ${tokens} of the prompt, ${percent}, ${cached} of them from the cache.`,
};

export const progressFigure = {
  loading: (model: Text, percent: Text) => `Loading ${model}: ${percent}.`,
  downloading: (model: Text, doneBytes: Text, totalBytes: Text, percent: Text) =>
    `Downloading ${model}: ${doneBytes} of ${totalBytes}, ${percent}.`,
  downloadingFiles: (
    model: Text,
    doneBytes: Text,
    totalBytes: Text,
    percent: Text,
    incomplete: Text,
  ) =>
    `Downloading ${model}: ${doneBytes} of ${totalBytes}, ${percent}. ` +
    `${counted(incomplete, 'file is incomplete', 'files are incomplete')}.`,
  job: (job: Text, doneBytes: Text, totalBytes: Text, percent: Text) =>
    `${job}: ${doneBytes} of ${totalBytes}, ${percent}.`,
  jobOfUnknownSize: (job: Text, doneBytes: Text) => `${job}: ${doneBytes} so far.`,
  importing: (title: Text) => `Importing ${title}`,
  downloadingName: (title: Text) => `Downloading ${title}`,
  movingCache: (dir: Text) => `Moving the cache to ${dir}`,
  training: (name: Text, done: Text, all: Text, percent: Text) =>
    `Training ${name}: iteration ${done} of ${all}, ${percent}.`,
};

export const treemapFigure = {
  empty: 'The cache holds no conversations on disk.',
  treemap: (conversations: Text, bytes: Text, largest: Text, largestBytes: Text) =>
    `The cache holds ${counted(conversations, 'conversation', 'conversations')} in ${bytes}. ` +
    `The largest is “${largest}” with ${largestBytes}.`,
};

export const meterFigure = {
  cache: (bytes: Text, maxBytes: Text, share: Text) =>
    `The disk cache uses ${bytes} of ${maxBytes}, which is ${share}.`,
};

export const chartFigure = {
  empty: (label: Text) => `${label}: nothing was measured in the last 10 minutes.`,
  line: (label: Text, now: Text, mean: Text, greatest: Text) =>
    `${label} is ${now} now. In the last 10 minutes it was ${mean} on average and ` +
    `${greatest} at most.`,
};
