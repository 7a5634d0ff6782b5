import { expect, test } from 'vitest';
import { contextUse, withDraft } from './context';
import { newMessage, type Message } from './stores/conversations';

const asked = (chars: number) => newMessage('user', 'x'.repeat(chars));
function answered(chars: number, change: Partial<NonNullable<Message['stats']>>): Message {
  const stats = {
    promptTokens: 100,
    cachedTokens: 0,
    answerTokens: 50,
    draftTokens: 0,
    acceptedTokens: 0,
    acceptedText: [],
    estimated: false,
    tokensPerSecond: 1,
    firstTokenSeconds: 1,
    ...change,
  };
  return { ...newMessage('assistant', 'x'.repeat(chars)), stats };
}

test('an empty chat takes nothing, and a system prompt is estimated', () => {
  expect(contextUse([], '')).toMatchObject({ tokens: 0, estimated: false });
  expect(contextUse([], 'x'.repeat(40))).toMatchObject({ tokens: 10, estimated: true });
});

test('up to the last answer the engine has counted; reasoning is not sent again', () => {
  const messages = [asked(200), { ...answered(100, {}), reasoningTokens: 30 }];
  expect(contextUse(messages, '')).toEqual({ tokens: 120, estimated: false, charsPerToken: 2.5 });
});

test('what comes later is estimated at the measured characters per token', () => {
  const messages = [asked(200), answered(100, {}), asked(30)];
  expect(contextUse(messages, '')).toEqual({ tokens: 165, estimated: true, charsPerToken: 2 });
  const file = { name: 'a', text: 'x'.repeat(100), pages: 0 };
  const withFile = [asked(200), answered(100, {}), { ...asked(30), attachments: [file] }];
  expect(contextUse(withFile, '').tokens).toBe(215);
});

test('an answer that was stopped has no count', () => {
  const messages = [asked(200), answered(100, { estimated: true })];
  expect(contextUse(messages, '')).toMatchObject({ tokens: 75, estimated: true });
});

test('a draft is added as an estimate', () => {
  const use = contextUse([asked(200), answered(100, {})], '');
  expect(withDraft(use, 0)).toBe(use);
  expect(withDraft(use, 11)).toMatchObject({ tokens: 156, estimated: true });
});
