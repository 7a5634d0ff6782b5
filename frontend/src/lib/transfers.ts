// Imports and downloads in words.
import type { ImportItem, ImportPlan, Job } from './backend/transfers';
import { diskBytes, duration, share } from './format';

/** "3.2 GB of 18.6 GB (17 %), 42.0 MB/s, 6 min 2 s left". */
export function jobText(job: Job): string {
  const amount =
    job.totalBytes > 0
      ? `${diskBytes(job.doneBytes)} of ${diskBytes(job.totalBytes)} (${share(job.doneBytes, job.totalBytes)})`
      : diskBytes(job.doneBytes);
  switch (job.state) {
    case 'waiting':
      return 'Queued';
    case 'done':
      return `${diskBytes(job.doneBytes)}, verified`;
    case 'stopped':
      return `Paused at ${amount}`;
    case 'failed':
      return `Failed at ${amount}`;
  }
  const parts = [amount];
  if (job.bytesPerSecond > 0) parts.push(`${diskBytes(job.bytesPerSecond)}/s`);
  if (job.secondsLeft >= 0)
    parts.push(`${duration(Math.max(1, Math.round(job.secondsLeft)))} left`);
  return parts.join(', ');
}

/** What importing an item will do: "18.6 GB are copied". */
export function itemText(item: ImportItem, mode: ImportPlan['mode']): string {
  if (mode === 'link')
    return `${diskBytes(item.bytes)}, linked: nothing is copied, and it stays in ${item.source}`;
  const verb = mode === 'move' ? 'moved' : 'copied';
  if (item.writtenBytes === 0)
    return `${diskBytes(item.bytes)}, ${verb} on one disk: nothing is written`;
  return `${diskBytes(item.bytes)}, ${verb}${item.clones ? '; the disk can share them with the original' : ''}`;
}

/** "Copy 2 models, 19.2 GB"; empty when nothing can be imported. */
export function planText(plan: ImportPlan): string {
  const items = plan.items.filter(({ error }) => !error);
  if (items.length === 0) return '';
  const verb = { copy: 'Copy', move: 'Move', link: 'Link' }[plan.mode];
  return `${verb} ${items.length} ${items.length === 1 ? 'model' : 'models'}, ${diskBytes(items.reduce((sum, { bytes }) => sum + bytes, 0))}`;
}
