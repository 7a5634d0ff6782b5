import { expect, test } from 'vitest';
import { Answer } from './answer';

test('the clock of an answer with reasoning', () => {
  const answer = new Answer(1000);
  expect(answer.phase).toBe('waiting');
  answer.take({ type: 'prefill', doneTokens: 64, totalTokens: 128 }, 1100);
  expect(answer.phase).toBe('prefill');
  expect(answer.prefill).toMatchObject({ doneTokens: 64, totalTokens: 128 });
  answer.take({ type: 'reasoning', text: 'Hm' }, 1400);
  answer.take({ type: 'reasoning', text: '.' }, 1500);
  expect(answer.phase).toBe('reasoning');
  expect(answer.prefill).toBeNull();
  answer.take({ type: 'content', text: '4' }, 1900);
  answer.take({ type: 'content', text: '9' }, 2400);
  answer.take({ type: 'finish', reason: 'stop' }, 2400);
  answer.take(
    {
      type: 'usage',
      usage: {
        promptTokens: 128,
        cachedTokens: 64,
        completionTokens: 5,
        reasoningTokens: 2,
        draftTokens: 3,
        acceptedTokens: 2,
        tokensPerSecond: null,
      },
    },
    2500,
  );
  expect(answer.content).toBe('49');
  expect(answer.reasoning).toBe('Hm.');
  expect(answer.reasoningSeconds).toBe(0.5); // 1400 to 1900
  expect(answer.stats).toEqual({
    promptTokens: 128,
    cachedTokens: 64,
    answerTokens: 5,
    draftTokens: 3,
    acceptedTokens: 2,
    acceptedText: [],
    estimated: false,
    tokensPerSecond: 4, // four tokens after the first, from 1400 to 2400
    firstTokenSeconds: 0.4,
  });
});

test('accepted text is noted by its place in the answer', () => {
  const answer = new Answer(0);
  for (const [text, accepted] of [
    ['A', false],
    [' 𝄞', true],
    [' c', true],
    [' d', false],
    [' e', true],
  ] as const)
    answer.take({ type: 'content', text, ...(accepted && { accepted }) }, 100);
  expect(answer.content).toBe('A 𝄞 c d e');
  expect(answer.stats?.acceptedText).toEqual([
    [1, 6],
    [8, 10],
  ]);
});

test('without usage the tokens are counted by arrival and marked as estimated', () => {
  const answer = new Answer(0);
  answer.take({ type: 'content', text: 'a' }, 100);
  answer.take({ type: 'content', text: 'b' }, 600);
  expect(answer.stats).toMatchObject({ answerTokens: 2, estimated: true, tokensPerSecond: 2 });
});

test("the engine's speed is used when all pieces arrive at once", () => {
  const answer = new Answer(0);
  answer.take({ type: 'content', text: 'a' }, 100);
  answer.take({ type: 'content', text: 'b' }, 100.1);
  answer.take(
    {
      type: 'usage',
      usage: {
        promptTokens: 9,
        cachedTokens: 0,
        completionTokens: 12,
        reasoningTokens: 0,
        draftTokens: 0,
        acceptedTokens: 0,
        tokensPerSecond: 420,
      },
    },
    101,
  );
  expect(answer.stats?.tokensPerSecond).toBe(420);
});

test('without tokens there are no figures; with one token there is no speed', () => {
  const answer = new Answer(0);
  expect(answer.stats).toBeNull();
  answer.take({ type: 'content', text: 'a' }, 100);
  expect(answer.stats).toMatchObject({ answerTokens: 1, tokensPerSecond: 0 });
});

test('a late progress report does not turn the answer back into a wait', () => {
  const answer = new Answer(0);
  answer.take({ type: 'content', text: 'a' }, 100);
  answer.take({ type: 'prefill', doneTokens: 1, totalTokens: 2 }, 110);
  expect(answer.phase).toBe('content');
  expect(answer.prefill).toBeNull();
});
