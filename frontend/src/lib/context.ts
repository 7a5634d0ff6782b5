// How much of a model's context a conversation takes: measured by the engine up to the last answer,
// estimated after it.
import type { Message } from './stores/conversations';

export interface ContextUse {
  tokens: number;
  estimated: boolean;
  /** Characters for each token, as measured or as usual. */
  charsPerToken: number;
}

const usualCharsPerToken = 4;
/** Below this share of the context nothing is said. */
export const soonFull = 0.8;

/** The tokens of the next prompt without its question. prompt: the system prompt. */
export function contextUse(messages: readonly Message[], prompt: string): ContextUse {
  const at = messages.findLastIndex(({ stats }) => stats && !stats.estimated && stats.promptTokens);
  if (at < 0) {
    const chars = charsOf(messages) + prompt.length;
    const tokens = Math.ceil(chars / usualCharsPerToken);
    return { tokens, estimated: chars > 0, charsPerToken: usualCharsPerToken };
  }
  const { stats, reasoningTokens } = messages[at]!;
  // The next question comes without the reasoning.
  const measured = stats!.promptTokens + Math.max(0, stats!.answerTokens - reasoningTokens);
  const charsPerToken = clamp(
    (charsOf(messages.slice(0, at + 1)) + prompt.length) / Math.max(1, measured),
    1,
    6,
  );
  const later = charsOf(messages.slice(at + 1));
  return {
    tokens: measured + Math.ceil(later / charsPerToken),
    estimated: later > 0,
    charsPerToken,
  };
}

/** With a question that has not been sent. */
export function withDraft(use: ContextUse, chars: number): ContextUse {
  if (chars === 0) return use;
  return {
    ...use,
    tokens: use.tokens + Math.ceil(chars / use.charsPerToken),
    estimated: true,
  };
}

function charsOf(messages: readonly Message[]): number {
  let sum = 0;
  for (const { content, attachments } of messages) {
    sum += content.length;
    for (const { text } of attachments) sum += text.length;
  }
  return sum;
}

const clamp = (value: number, least: number, most: number) =>
  Math.max(least, Math.min(value, most));
