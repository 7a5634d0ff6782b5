// Why a prompt was computed again, and where its tokens came from. The causes are those of the
// engine's package cachemiss.
import { causes } from '../strings/cache';
import type { FinishedRequest, CacheMissCause } from './backend/types';

interface CauseText {
  /** The label of a table's row. */
  label: string;
  /** Whether a person can do something about it. */
  avoidable: boolean;
}

/** The fewest tokens computed again that the list marks. Fewer are computed in no time. */
const leastMarked = 256;

const unavoidable: readonly CacheMissCause[] = [
  'new_conversation',
  'continued',
  'model_changed',
  'private',
];

/** Describes a cause. An unknown one is shown under its identifier. */
export function causeText(cause: string): CauseText {
  if (!(cause in causes)) {
    return { label: cause.replaceAll('_', ' ') || causes.unknown, avoidable: false };
  }
  const known = cause as CacheMissCause;
  return { label: causes[known], avoidable: !unavoidable.includes(known) };
}

/** Whether a cache miss could have been avoided and cost something. */
export function costly(request: FinishedRequest): boolean {
  return causeText(request.cacheMiss.cause).avoidable && againTokens(request) >= leastMarked;
}

/** The tokens that were computed although they had been computed before. */
function againTokens({ computedTokens, cacheMiss }: FinishedRequest): number {
  return Math.max(0, Math.min(cacheMiss.recomputedTokens, computedTokens));
}

/** The parts of a prompt, in their order. */
export type PromptPart = 'memory' | 'disk' | 'again' | 'new' | 'unread';

/** The tokens of each part of a prompt; parts without tokens are left out. */
export function partsOf(request: FinishedRequest): { part: PromptPart; tokens: number }[] {
  const { promptTokens, memoryTokens, diskTokens, computedTokens } = request;
  const unread = Math.max(0, promptTokens - memoryTokens - diskTokens - computedTokens);
  const list: { part: PromptPart; tokens: number }[] = [
    { part: 'memory', tokens: memoryTokens },
    { part: 'disk', tokens: diskTokens },
    { part: 'again', tokens: againTokens(request) },
    { part: 'new', tokens: computedTokens - againTokens(request) },
    { part: 'unread', tokens: unread },
  ];
  return list.filter(({ tokens }) => tokens > 0);
}
