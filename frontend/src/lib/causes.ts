// Why a prompt was computed again, and where its tokens came from. The causes are those of the
// engine's package cachemiss.
import { causes } from '../strings/cache';
import type { FinishedRequest, CacheMissCause } from './backend/types';

interface CauseText {
  /** The label of a table's row. */
  label: string;
  /** Whether a person can do something about it; the list marks it. */
  avoidable: boolean;
}

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

/** The parts of a prompt, in their order. */
export type PromptPart = 'memory' | 'disk' | 'computed' | 'unread';

/** The tokens of each part of a prompt; parts without tokens are left out. */
export function partsOf(request: FinishedRequest): { part: PromptPart; tokens: number }[] {
  const { promptTokens, memoryTokens, diskTokens, computedTokens } = request;
  const unread = Math.max(0, promptTokens - memoryTokens - diskTokens - computedTokens);
  const list: { part: PromptPart; tokens: number }[] = [
    { part: 'memory', tokens: memoryTokens },
    { part: 'disk', tokens: diskTokens },
    { part: 'computed', tokens: computedTokens },
    { part: 'unread', tokens: unread },
  ];
  return list.filter(({ tokens }) => tokens > 0);
}
