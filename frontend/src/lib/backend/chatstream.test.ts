import { describe, expect, test } from 'vitest';
import { HeadroomError } from './backend';
import { interpret, readChat } from './chatstream';
import type { ChatEvent } from './types';

function stream(...chunks: string[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
      controller.close();
    },
  });
}

async function collect(body: ReadableStream<Uint8Array>): Promise<ChatEvent[]> {
  const events: ChatEvent[] = [];
  for await (const event of readChat(body)) events.push(event);
  return events;
}

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (fields: object, finish_reason: string | null = null) =>
  data({ choices: [{ index: 0, delta: fields, finish_reason }] });

test('an answer with everything in it', async () => {
  const events = await collect(
    stream(
      ': keepalive 0/2048\n\n',
      ': keepalive 512/2048\n\n',
      delta({ role: 'assistant', content: '' }),
      delta({ reasoning_content: 'Hm', reasoning: 'Hm' }),
      delta({ content: '4' }),
      delta({ content: '9' }),
      delta({}, 'stop'),
      data({
        choices: [],
        usage: {
          prompt_tokens: 2048,
          completion_tokens: 3,
          prompt_tokens_details: { cached_tokens: 512 },
          completion_tokens_details: {
            reasoning_tokens: 1,
            accepted_prediction_tokens: 2,
            rejected_prediction_tokens: 5,
          },
          timings: { first_token_seconds: 0.2, decode_tokens_per_second: 41.5 },
        },
      }),
      'data: [DONE]\n\n',
      delta({ content: 'never seen' }),
    ),
  );
  expect(events).toEqual([
    { type: 'prefill', doneTokens: 0, totalTokens: 2048 },
    { type: 'prefill', doneTokens: 512, totalTokens: 2048 },
    { type: 'reasoning', text: 'Hm' },
    { type: 'content', text: '4' },
    { type: 'content', text: '9' },
    { type: 'finish', reason: 'stop' },
    {
      type: 'usage',
      usage: {
        promptTokens: 2048,
        cachedTokens: 512,
        completionTokens: 3,
        reasoningTokens: 1,
        draftTokens: 7,
        acceptedTokens: 2,
        tokensPerSecond: 41.5,
      },
    },
  ]);
});

test('reasoning is read under either of its two names', async () => {
  const events = await collect(
    stream(delta({ reasoning: 'a' }), delta({ reasoning_content: 'b' }), 'data: [DONE]\n\n'),
  );
  expect(events).toEqual([
    { type: 'reasoning', text: 'a' },
    { type: 'reasoning', text: 'b' },
  ]);
});

describe('comments', () => {
  test.each([
    ['keepalive', []],
    ['keepalive 5/0', []],
    ['keepalive x/y', []],
    ['keepalive 9/8', [{ type: 'prefill', doneTokens: 8, totalTokens: 8 }]],
  ])('%s', (text, events) => expect(interpret({ kind: 'comment', text })).toEqual(events));
});

describe('every failure becomes a HeadroomError', () => {
  test.each([
    [
      'an error in the middle of an answer',
      [delta({ content: 'a' }), data({ error: { code: 'model_gone', message: 'Gone.' } })],
      'model_gone',
    ],
    ['an event called error', ['event: error\ndata: {"message":"x"}\n\n'], 'unknown'],
    ['not JSON', ['data: <html>\n\n'], 'unreadable_stream'],
    ['JSON, but no object', ['data: 7\n\n'], 'unreadable_stream'],
    ['null', ['data: null\n\n'], 'unreadable_stream'],
    ['the end before [DONE]', [delta({ content: 'a' })], 'stream_ended'],
    ['nothing at all', [], 'stream_ended'],
  ])('%s', async (_, chunks, code) => {
    const failure = await collect(stream(...chunks)).then(
      () => null,
      (cause: unknown) => cause,
    );
    expect(failure).toBeInstanceOf(HeadroomError);
    expect((failure as HeadroomError).code).toBe(code);
    expect((failure as HeadroomError).message).not.toBe('');
  });
});

test('a reader that stops listening closes the connection', async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode(delta({ content: 'a' }))),
    cancel: () => void (cancelled = true),
  });
  for await (const event of readChat(body)) {
    expect(event).toEqual({ type: 'content', text: 'a' });
    break;
  }
  expect(cancelled).toBe(true);
});
