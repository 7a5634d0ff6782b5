import { beforeEach, describe, expect, test } from 'vitest';
import { loadConversations, newConversation, newMessage, saveConversations, storageKey, titleOf } from './conversations';

beforeEach(() => localStorage.clear());

test('what is kept comes back the same, newest first', () => {
  const [older, newer] = [newConversation(1), newConversation(2)];
  older.messages.push(newMessage('user', 'Hello'), {
    ...newMessage('assistant', 'Hi', 'headroom-demo'),
    reasoning: 'Greet.',
    reasoningTokens: 2,
    reasoningSeconds: 0.5,
    end: 'stop',
    stats: { promptTokens: 9, cachedTokens: 4, answerTokens: 3, estimated: false, tokensPerSecond: 50, firstTokenSeconds: 0.1 },
  });
  newer.messages.push(newMessage('user', 'Again'));
  expect(saveConversations(localStorage, [older, newer])).toBe(true);
  expect(loadConversations(localStorage)).toEqual([newer, older]);
});

test('an answer that was being written when the page closed counts as stopped', () => {
  const conversation = newConversation(1);
  conversation.messages.push(newMessage('user', 'Hello'), newMessage('assistant', 'Hi th'));
  saveConversations(localStorage, [conversation]);
  expect(loadConversations(localStorage)[0]?.messages[1]?.end).toBe('stopped');
});

describe('whatever lies in storage, the page opens', () => {
  test.each([
    ['not JSON', '{'],
    ['not a list', '{"id":"a"}'],
    ['null', 'null'],
    ['strange items', '[null, 7, {"id": 1, "messages": []}, {"id": "a", "messages": {}}]'],
  ])('%s', (_, text) => {
    localStorage.setItem(storageKey, text);
    expect(loadConversations(localStorage)).toEqual([]);
  });

  test('strange messages are left out, the rest stays', () => {
    const messages = [null, { role: 'system', content: 'x' }, { role: 'user' }, { role: 'user', content: 'kept', stats: 'no', error: 3 }];
    localStorage.setItem(storageKey, JSON.stringify([{ id: 'a', messages, updatedAt: 'never' }]));
    const [conversation] = loadConversations(localStorage);
    expect(conversation).toMatchObject({ id: 'a', title: '', updatedAt: 0 });
    expect(conversation?.messages).toMatchObject([{ role: 'user', content: 'kept', stats: null, error: null }]);
  });
});

test('a full storage is reported', () => {
  const full = { setItem: () => { throw new DOMException('full', 'QuotaExceededError'); } } as unknown as Storage;
  expect(saveConversations(full, [])).toBe(false);
});

describe('titleOf', () => {
  test.each([
    ['What is a token?', 'What is a token?'],
    ['\n  Repeat this:  \n\nsecond', 'Repeat this: second'],
    ['word '.repeat(20), `${'word '.repeat(12).trim()}…`],
    ['x'.repeat(80), `${'x'.repeat(60)}…`],
    ['', ''],
  ])('%s', (text, title) => expect(titleOf(text)).toBe(title));
});
