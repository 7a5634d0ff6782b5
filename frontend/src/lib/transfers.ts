// Texts of imports and downloads.
import { transfers as t } from '../strings/models';
import type { TrainingStatus } from './backend/trainings';
import type { ImportItem, ImportPlan, Job } from './backend/transfers';
import { diskBytes, share, wholeSeconds } from './format';

/** A job that moves bytes. */
export type Transfer = Job & { kind: Exclude<Job['kind'], 'training'> };
export const isTransfer = (job: Job): job is Transfer => job.kind !== 'training';

/** The progress of a job: "3.2 GB of 18.6 GB (17 %), 42.0 MB/s, 6 min 2 s left". */
export function jobText({
  state,
  doneBytes,
  totalBytes,
  bytesPerSecond,
  secondsLeft,
}: Job): string {
  const done = diskBytes(doneBytes);
  const amount =
    totalBytes > 0 ? t.amount(done, diskBytes(totalBytes), share(doneBytes, totalBytes)) : done;
  switch (state) {
    case 'waiting':
      return t.queued;
    case 'done':
      return t.verified(done);
    case 'stopped':
      return t.paused(amount);
    case 'failed':
      return t.failed(amount);
  }
  const parts = [amount];
  if (bytesPerSecond > 0) parts.push(t.perSecond(diskBytes(bytesPerSecond)));
  if (secondsLeft >= 0) parts.push(t.left(wholeSeconds(Math.max(1, secondsLeft))));
  return parts.join(', ');
}

/** The jobs that run or wait, the running ones first. */
export function activeJobs(jobs: readonly Job[]): Job[] {
  const rank = { running: 0, waiting: 1 } as Record<Job['state'], number | undefined>;
  return jobs
    .filter(({ state }) => rank[state] !== undefined)
    .toSorted((a, b) => rank[a.state]! - rank[b.state]!);
}

/** Sizes and time left of several jobs together. A job of unknown size counts for nothing. */
export interface Total {
  doneBytes: number;
  totalBytes: number;
  /** Negative: unknown. */
  secondsLeft: number;
}

export function total(jobs: readonly Job[]): Total {
  const sum = { doneBytes: 0, totalBytes: 0, secondsLeft: -1 };
  for (const { doneBytes, totalBytes, secondsLeft } of jobs) {
    if (totalBytes <= 0) continue;
    sum.doneBytes += Math.min(doneBytes, totalBytes);
    sum.totalBytes += totalBytes;
    // Jobs run beside each other, so the longest one says when all have ended.
    sum.secondsLeft = Math.max(sum.secondsLeft, secondsLeft);
  }
  return sum;
}

/** How much of a training is done: "33 %". */
export const trainedShare = ({ iteration, iterations }: TrainingStatus) =>
  share(iteration, iterations);

/** "33 %"; empty: unknown. */
export function shareText({ doneBytes, totalBytes }: Total): string {
  return totalBytes > 0 ? share(doneBytes, totalBytes) : '';
}

/** "6 min 2 s left"; empty: unknown. */
export function leftText({ secondsLeft }: Pick<Total, 'secondsLeft'>): string {
  return secondsLeft < 0 ? '' : t.left(wholeSeconds(Math.max(1, secondsLeft)));
}

/** What an import does with one item: "18.6 GB, copied". */
export function itemText(item: ImportItem, mode: ImportPlan['mode']): string {
  const bytes = diskBytes(item.bytes);
  if (item.converts) return t.converted(bytes);
  if (mode === 'link') return t.linked(bytes, item.source);
  const move = mode === 'move';
  if (item.writtenBytes === 0) return move ? t.movedOnOneDisk(bytes) : t.copiedOnOneDisk(bytes);
  return (move ? t.moved(bytes) : t.copied(bytes)) + (item.clones ? t.cloned : '');
}

/**
 * The button of an import: "Copy 2 models, 19.2 GB", or "Convert 1 model, 4.7 GB". Empty when
 * nothing can be imported.
 */
export function planText(plan: ImportPlan): string {
  const items = plan.items.filter(({ error }) => !error);
  if (items.length === 0) return '';
  const does = items.every(({ converts }) => converts) ? 'convert' : plan.mode;
  return t[does](items.length, diskBytes(items.reduce((sum, { bytes }) => sum + bytes, 0)));
}
