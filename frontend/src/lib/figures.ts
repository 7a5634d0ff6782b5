// The sentences that a screen reader says for figures: the bars, the treemap and the charts.
import {
  chartFigure,
  memoryFigure,
  meterFigure,
  needFigure,
  percent,
  progressFigure,
  promptFigure,
  treemapFigure,
} from '../strings/figures';
import type { Conversation, FinishedRequest, Model, Segment } from './backend/types';
import type { Job } from './backend/transfers';
import { isTransfer, type Transfer } from './transfers';
import { partsOf } from './causes';
import { count, diskBytes, memoryBytes, share, tokens } from './format';
import { shortContext } from './models';
import { verdicts } from '../strings/models';
import { segmentTexts } from './segments';

/** The marks of a memory bar, in bytes; 0: no mark. */
export interface MemoryMarks {
  wiredBytes?: number;
  recommendedBytes?: number;
  endBytes?: number;
}

/** A memory bar: each part with its size and share, then the marks. */
export function memorySentence(
  segments: readonly Segment[],
  totalBytes: number,
  marks: MemoryMarks = {},
): string {
  const parts = segments
    .filter(({ bytes }) => bytes > 0)
    .map(({ kind, bytes, source }) =>
      memoryFigure.part(
        segmentTexts[kind].label,
        (source === 'estimated' ? '~' : '') + memoryBytes(bytes),
        share(bytes, totalBytes),
      ),
    );
  const { wiredBytes = 0, recommendedBytes = 0, endBytes = 0 } = marks;
  return [
    memoryFigure.memory(memoryBytes(totalBytes), parts.join(', ')),
    wiredBytes > 0 ? memoryFigure.wired(memoryBytes(wiredBytes)) : '',
    recommendedBytes > 0 ? memoryFigure.recommended(memoryBytes(recommendedBytes)) : '',
    endBytes > 0 ? memoryFigure.end(memoryBytes(endBytes)) : '',
  ].join('');
}

/** The small bar of a model; empty where the model has none. */
export function needSentence(model: Model, roomBytes: number, contextTokens = 0): string {
  if (model.state === 'downloading') {
    const { doneBytes = 0, totalBytes = 0 } = model.download ?? {};
    return totalBytes > 0 ? needFigure.downloaded(spokenShare(doneBytes, totalBytes)) : '';
  }
  if (model.state !== 'ready' || model.error) return '';
  const need = memoryBytes(model.needBytes);
  const context = shortContext(model, contextTokens);
  return needFigure.needs(
    context > 0 ? verdicts.needAt(need, count(context)) : need,
    memoryBytes(roomBytes),
  );
}

/** The bar of a finished request: where its prompt's tokens came from. */
export function promptSentence(request: FinishedRequest): string {
  const parts = partsOf(request).map(({ part, tokens: number }) =>
    promptFigure[part](count(number)),
  );
  return promptFigure.prompt(tokens(request.promptTokens), parts.join(', '));
}

/** The treemap of the cache, whose size includes what conversations share. */
export function treemapSentence(
  conversations: readonly Pick<Conversation, 'title' | 'bytes'>[],
  untitled: string,
  totalBytes: number,
): string {
  const stored = conversations.filter(({ bytes }) => bytes > 0);
  if (stored.length === 0) return treemapFigure.empty;
  const largest = stored.reduce((most, one) => (one.bytes > most.bytes ? one : most));
  return treemapFigure.treemap(
    count(stored.length),
    diskBytes(totalBytes),
    largest.title || untitled,
    diskBytes(largest.bytes),
  );
}

/** The meter of the disk cache. */
export function cacheSentence(bytes: number, maxBytes: number): string {
  return meterFigure.cache(diskBytes(bytes), diskBytes(maxBytes), share(bytes, maxBytes));
}

/** A share as a screen reader says it: "45 percent". */
function spokenShare(part: number, whole: number): string {
  const text = share(part, whole);
  return text.startsWith('<') ? percent.lessThanOne : percent.exactly(text.replace(' %', ''));
}

/** The progress bar of a prefill. */
export function prefillSentence(done: number, total: number, cached = 0): string {
  const figures = [count(done), tokens(total), spokenShare(done, total)] as const;
  return cached > 0
    ? promptFigure.progressWithCache(...figures, count(cached))
    : promptFigure.progress(...figures);
}

/** The progress bar of a model that is loading; progress is from 0 to 1. */
export function loadingSentence(model: string, progress: number): string {
  return progressFigure.loading(model, spokenShare(progress, 1));
}

/** The progress bar of a model that is downloading. */
export function downloadSentence({ name, download }: Model): string {
  const { doneBytes = 0, totalBytes = 0, missing = [], parts = [] } = download ?? {};
  const figures = [
    name,
    diskBytes(doneBytes),
    diskBytes(totalBytes),
    spokenShare(doneBytes, totalBytes),
  ] as const;
  const incomplete = missing.length + parts.length;
  return incomplete > 0
    ? progressFigure.downloadingFiles(...figures, count(incomplete))
    : progressFigure.downloading(...figures);
}

const jobNames: Record<Transfer['kind'], (title: string) => string> = {
  import: progressFigure.importing,
  download: progressFigure.downloadingName,
  cache: progressFigure.movingCache,
};

/** The progress bar of a job. */
export function jobSentence(job: Job): string {
  const { title, training, doneBytes, totalBytes } = job;
  if (training) {
    const { iteration, iterations } = training;
    const part = spokenShare(iteration, iterations);
    return progressFigure.training(title, count(iteration), count(iterations), part);
  }
  const name = isTransfer(job) ? jobNames[job.kind](title) : title;
  const done = diskBytes(doneBytes);
  return totalBytes > 0
    ? progressFigure.job(name, done, diskBytes(totalBytes), spokenShare(doneBytes, totalBytes))
    : progressFigure.jobOfUnknownSize(name, done);
}

/** One line of a chart: its last value, its mean and its greatest. */
export function lineSentence(
  label: string,
  values: readonly number[],
  format: (value: number) => string,
): string {
  if (values.length === 0) return chartFigure.empty(label);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return chartFigure.line(label, format(values.at(-1)!), format(mean), format(Math.max(...values)));
}
