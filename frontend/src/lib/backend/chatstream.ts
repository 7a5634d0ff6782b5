// Turns server-sent events into the events of one chat answer.
//
// The wire format is OpenAI's chat.completion.chunk with Headroom's additions. During prefill, a
// comment ": keepalive 512/2048" counts the prompt tokens that are done. The model's reasoning is
// in delta.reasoning_content, and again in delta.reasoning. An error during an answer is a chunk
// {error: {...}}.
import { HeadroomError, errorFromBody } from './backend';
import { SseParser, type SseItem } from './sse';
import type { ChatEvent, ChatUsage } from './types';
import { answerEndedEarly, answerFailed, answerUnreadable } from '../../strings/errors';

interface CallPiece {
  index?: number;
  function?: { name?: string | null; arguments?: string | null };
}

interface Chunk {
  choices?: {
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      reasoning?: string | null;
      tool_calls?: CallPiece[] | null;
      accepted_prediction?: boolean;
    };
    finish_reason?: string | null;
  }[];
  usage?: {
    prompt_tokens?: number;
    completion_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number } | null;
    completion_tokens_details?: {
      reasoning_tokens?: number;
      accepted_prediction_tokens?: number;
      rejected_prediction_tokens?: number;
    } | null;
    timings?: { decode_tokens_per_second?: number } | null;
  } | null;
  error?: unknown;
}

/** Yields the answer's events until [DONE]. Throws a HeadroomError if the stream ends earlier. */
export async function* readChat(body: ReadableStream<Uint8Array>): AsyncGenerator<ChatEvent> {
  const parser = new SseParser();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw brokenOff();
      for (const item of parser.push(value)) {
        if (item.kind === 'event' && item.data === '[DONE]') return;
        yield* interpret(item);
      }
    }
  } finally {
    // A caller that stops early closes the connection too, so that the server ends the request.
    await reader.cancel().catch(() => {});
  }
}

/** Returns the chat events in one item of the stream. */
export function interpret(item: SseItem): ChatEvent[] {
  if (item.kind === 'comment') return prefill(item.text);
  let chunk: Chunk | null;
  try {
    chunk = JSON.parse(item.data) as Chunk | null;
  } catch {
    throw unreadable(item.data);
  }
  if (typeof chunk !== 'object' || chunk === null) throw unreadable(item.data);
  if (chunk.error || item.event === 'error') {
    throw errorFromBody(chunk, answerFailed.message);
  }
  const events: ChatEvent[] = [];
  for (const choice of chunk.choices ?? []) {
    const reasoning = choice.delta?.reasoning_content ?? choice.delta?.reasoning;
    if (reasoning) events.push({ type: 'reasoning', text: reasoning });
    if (choice.delta?.content)
      events.push({
        type: 'content',
        text: choice.delta.content,
        ...(choice.delta.accepted_prediction === true && { accepted: true }),
      });
    for (const piece of choice.delta?.tool_calls ?? []) {
      events.push({
        type: 'call',
        index: piece.index ?? 0,
        name: piece.function?.name ?? '',
        arguments: piece.function?.arguments ?? '',
      });
    }
    if (choice.finish_reason) events.push({ type: 'finish', reason: choice.finish_reason });
  }
  if (chunk.usage) events.push({ type: 'usage', usage: usage(chunk.usage) });
  return events;
}

function prefill(comment: string): ChatEvent[] {
  const match = /^keepalive\s+(\d+)\/(\d+)\s*$/.exec(comment);
  if (!match) return [];
  const [doneTokens, totalTokens] = [Number(match[1]), Number(match[2])];
  if (totalTokens <= 0) return [];
  return [{ type: 'prefill', doneTokens: Math.min(doneTokens, totalTokens), totalTokens }];
}

function usage(wire: NonNullable<Chunk['usage']>): ChatUsage {
  const acceptedTokens = wire.completion_tokens_details?.accepted_prediction_tokens ?? 0;
  const rejectedTokens = wire.completion_tokens_details?.rejected_prediction_tokens ?? 0;
  return {
    promptTokens: wire.prompt_tokens ?? 0,
    cachedTokens: wire.prompt_tokens_details?.cached_tokens ?? 0,
    completionTokens: wire.completion_tokens ?? 0,
    reasoningTokens: wire.completion_tokens_details?.reasoning_tokens ?? null,
    draftTokens: acceptedTokens + rejectedTokens,
    acceptedTokens,
    tokensPerSecond: wire.timings?.decode_tokens_per_second ?? null,
  };
}

function brokenOff(): HeadroomError {
  return new HeadroomError({
    code: 'stream_ended',
    ...answerEndedEarly,
  });
}

function unreadable(data: string): HeadroomError {
  const shown = data.length > 120 ? `${data.slice(0, 120)}…` : data;
  return new HeadroomError({
    code: 'unreadable_stream',
    message: answerUnreadable.message,
    why: answerUnreadable.why(shown),
    fix: answerUnreadable.fix,
  });
}
