// Why a prompt was read again, in plain words. The causes are engine/cachemiss's; one that is not
// known here is shown as it came.
import type { FinishedRequest, CacheMissCause } from './backend/types';

interface CauseText {
  /** What happened, as short as a table needs it. */
  label: string;
  /** Something can be done: worth a mark in the list. */
  avoidable: boolean;
}

const texts: Record<CacheMissCause, CauseText> = {
  new_conversation: { label: 'New conversation', avoidable: false },
  continued: { label: 'Continued from cache', avoidable: false },
  head_changed: { label: 'The beginning changed', avoidable: true },
  date_changed: { label: 'A date or time changed', avoidable: true },
  counter_changed: { label: 'A number or id changed', avoidable: true },
  tools_reordered: { label: 'The tools were reordered', avoidable: true },
  tools_changed: { label: 'The tools changed', avoidable: true },
  thinking_stripped: { label: 'Reasoning dropped from history', avoidable: true },
  message_edited: { label: 'An earlier message was edited', avoidable: true },
  retokenized: { label: 'Same text, tokenized differently', avoidable: true },
  evicted: { label: 'Evicted to free memory', avoidable: true },
  state_not_cached: { label: 'No checkpoint at this point', avoidable: true },
  cache_off: { label: 'The cache is off', avoidable: true },
  format_changed: { label: 'The cache format changed', avoidable: true },
  model_changed: { label: 'Computed by another model', avoidable: false },
};

export function causeText(cause: string): CauseText {
  return (
    texts[cause as CacheMissCause] ?? {
      label: cause.replaceAll('_', ' ') || 'Unknown',
      avoidable: false,
    }
  );
}

/** The parts of a prompt, in the order in which they stand there. */
export type PromptPart = 'memory' | 'disk' | 'computed' | 'unread';

export const promptParts: Record<PromptPart, string> = {
  memory: 'from memory',
  disk: 'from disk',
  computed: 'computed',
  unread: 'not reached',
};

/** How many tokens of a prompt came from where; all of them together. */
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
