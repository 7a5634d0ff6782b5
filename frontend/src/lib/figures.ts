// The sentences that a screen reader says for figures: the bars, the treemap and the charts.
import {
  chartFigure,
  memoryFigure,
  meterFigure,
  needFigure,
  promptFigure,
  treemapFigure,
} from '../strings/figures';
import type { Conversation, FinishedRequest, Model, Segment } from './backend/types';
import { partsOf } from './causes';
import { count, diskBytes, memoryBytes, share, tokens } from './format';
import { segmentTexts } from './segments';

/** Marks of a memory bar, in bytes; one that is 0 is not shown. */
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
export function needSentence(model: Model, roomBytes: number): string {
  if (model.state === 'downloading') {
    const { doneBytes = 0, totalBytes = 0 } = model.download ?? {};
    return totalBytes > 0 ? needFigure.downloaded(share(doneBytes, totalBytes)) : '';
  }
  if (model.state !== 'ready' || model.error) return '';
  return needFigure.needs(memoryBytes(model.needBytes), memoryBytes(roomBytes));
}

/** The bar of a finished request: where its prompt's tokens came from. */
export function promptSentence(request: FinishedRequest): string {
  const parts = partsOf(request).map(({ part, tokens: number }) =>
    promptFigure[part](count(number)),
  );
  return promptFigure.prompt(tokens(request.promptTokens), parts.join(', '));
}

/** The treemap of the cache. */
export function treemapSentence(
  conversations: readonly Pick<Conversation, 'title' | 'bytes'>[],
  untitled: string,
): string {
  const stored = conversations.filter(({ bytes }) => bytes > 0);
  if (stored.length === 0) return treemapFigure.empty;
  const largest = stored.reduce((most, one) => (one.bytes > most.bytes ? one : most));
  return treemapFigure.treemap(
    stored.length === 1
      ? treemapFigure.conversation
      : treemapFigure.conversations(count(stored.length)),
    diskBytes(stored.reduce((sum, { bytes }) => sum + bytes, 0)),
    largest.title || untitled,
    diskBytes(largest.bytes),
  );
}

/** The meter of the disk cache. */
export function cacheSentence(bytes: number, maxBytes: number): string {
  return meterFigure.cache(diskBytes(bytes), diskBytes(maxBytes), share(bytes, maxBytes));
}

/** The progress bar of a prompt that is being read. */
export function prefillSentence(done: number, total: number, cached: number): string {
  return promptFigure.progress(count(done), tokens(total), count(cached));
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
