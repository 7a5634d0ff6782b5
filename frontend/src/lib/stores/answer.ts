// Collects the text and the statistics of one streamed answer.
//
// It has no clock: chat.svelte.ts passes each event with its time.
import type { ChatEvent, ChatUsage } from '../backend/types';
import type { AnswerStats, ToolCall } from './conversations';

export class Answer {
  content = '';
  reasoning = '';
  calls: ToolCall[] = [];
  /** The prompt's progress; null before the server reports any and once tokens come. */
  prefill: { doneTokens: number; totalTokens: number } | null = null;
  finishReason = '';
  #startedMs: number;
  #firstMs = 0;
  #lastMs = 0;
  #contentMs = 0;
  /** Pieces of text, about one for each token. */
  #reasoningPieces = 0;
  #contentPieces = 0;
  #usage: ChatUsage | null = null;
  #accepted: [from: number, to: number][] = [];

  constructor(nowMs: number) {
    this.#startedMs = nowMs;
  }

  take(event: ChatEvent, nowMs: number): void {
    switch (event.type) {
      case 'prefill':
        if (!this.#firstMs) this.prefill = event;
        return;
      case 'reasoning':
        this.#mark(nowMs);
        this.#reasoningPieces++;
        this.reasoning += event.text;
        return;
      case 'content':
        this.#mark(nowMs);
        this.#contentMs ||= nowMs;
        this.#contentPieces++;
        if (event.accepted) this.#accept(this.content.length, event.text.length);
        this.content += event.text;
        return;
      case 'call': {
        this.#mark(nowMs);
        this.#contentPieces++;
        const before = this.calls[event.index] ?? { name: '', arguments: '' };
        const calls = [...this.calls];
        calls[event.index] = {
          name: before.name + event.name,
          arguments: before.arguments + event.arguments,
        };
        this.calls = calls.filter(Boolean);
        return;
      }
      case 'finish':
        this.finishReason = event.reason;
        return;
      case 'usage':
        this.#usage = event.usage;
    }
  }

  get phase(): 'waiting' | 'prefill' | 'reasoning' | 'content' {
    if (this.content) return 'content';
    if (this.reasoning) return 'reasoning';
    return this.prefill ? 'prefill' : 'waiting';
  }

  get reasoningTokens(): number {
    return this.#usage?.reasoningTokens ?? this.#reasoningPieces;
  }

  /** From the first token to the answer's first word, or to the last token if there is none yet. */
  get reasoningSeconds(): number {
    if (!this.reasoning) return 0;
    return ((this.#contentMs || this.#lastMs) - this.#firstMs) / 1000;
  }

  /** Null before the first token. */
  get stats(): AnswerStats | null {
    if (!this.#firstMs) return null;
    const answerTokens =
      this.#usage?.completionTokens ?? this.#reasoningPieces + this.#contentPieces;
    const seconds = (this.#lastMs - this.#firstMs) / 1000;
    return {
      promptTokens: this.#usage?.promptTokens ?? 0,
      cachedTokens: this.#usage?.cachedTokens ?? 0,
      answerTokens,
      draftTokens: this.#usage?.draftTokens ?? 0,
      acceptedTokens: this.#usage?.acceptedTokens ?? 0,
      acceptedText: this.#accepted.map(([from, to]) => [from, to]),
      estimated: this.#usage === null,
      // Arrival times count only until the engine reports its speed, since pieces may come all at
      // once. The first token ends the prefill; the rest was decoded after it.
      tokensPerSecond:
        this.#usage?.tokensPerSecond ??
        (seconds > 0 && answerTokens > 1 ? (answerTokens - 1) / seconds : 0),
      firstTokenSeconds: (this.#firstMs - this.#startedMs) / 1000,
    };
  }

  /** Notes accepted text; it joins text that ends where it begins. */
  #accept(from: number, length: number): void {
    const last = this.#accepted.at(-1);
    if (last?.[1] === from) last[1] = from + length;
    else this.#accepted.push([from, from + length]);
  }

  #mark(nowMs: number): void {
    this.#firstMs ||= nowMs;
    this.#lastMs = nowMs;
    this.prefill = null;
  }
}
