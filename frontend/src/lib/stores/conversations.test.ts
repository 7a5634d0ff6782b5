import { beforeEach, describe, expect, test } from 'vitest';
import {
  fromBrowser,
  messagesFrom,
  newConversation,
  newId,
  newMessage,
  partsOf,
  storageKey,
  titleOf,
  validId,
} from './conversations';

beforeEach(() => localStorage.clear());

test.each([
  [undefined, []],
  ['text', []],
  [
    [
      [0, 2],
      [2, 5],
    ],
    [
      [0, 2],
      [2, 5],
    ],
  ],
  [
    [
      [0, 2],
      [1, 5],
    ],
    [[0, 2]],
  ], // it begins before the end of the last
  [[[0, 2], 7, [3, 4]], [[0, 2]]],
  [[[3, 3]], []],
  [[[-1, 3]], []],
  [[[0, 1.5]], []],
])('accepted text %j is read as %j', (raw, want) => {
  const [message] = messagesFrom([
    { role: 'assistant', content: 'Hi', stats: { acceptedText: raw } },
  ]);
  expect(message!.stats!.acceptedText).toEqual(want);
});

test('a text in parts is the text, also if a range reaches beyond its end', () => {
  const plain = (text: string) => ({ text, accepted: false });
  const accepted = (text: string) => ({ text, accepted: true });
  expect(partsOf('abcdef', [])).toEqual([plain('abcdef')]);
  expect(
    partsOf('abcdef', [
      [0, 2],
      [3, 4],
    ]),
  ).toEqual([accepted('ab'), plain('c'), accepted('d'), plain('ef')]);
  expect(
    partsOf('abc', [
      [1, 9],
      [12, 14],
    ]),
  ).toEqual([plain('a'), accepted('bc')]);
});

test("conversations in this browser's storage are read unchanged", () => {
  const [older, newer] = [newConversation(1), newConversation(2)];
  older.messages.push(newMessage('user', 'Hello'), {
    ...newMessage('assistant', 'Hi', 'headroom-demo'),
    reasoning: 'Greet.',
    reasoningTokens: 2,
    reasoningSeconds: 0.5,
    end: 'stop',
    stats: {
      promptTokens: 9,
      cachedTokens: 4,
      answerTokens: 3,
      draftTokens: 2,
      acceptedTokens: 1,
      acceptedText: [[0, 1]],
      estimated: false,
      tokensPerSecond: 50,
      firstTokenSeconds: 0.1,
    },
  });
  newer.messages.push(newMessage('user', 'Again'));
  localStorage.setItem(
    storageKey,
    JSON.stringify(
      [newer, older].map(({ id, title, updatedAt, messages }) => ({
        id,
        title,
        updatedAt,
        messages,
      })),
    ),
  );
  expect(fromBrowser(localStorage)).toEqual([newer, older]);
});

test('an answer that was being written when the page closed counts as stopped', () => {
  expect(
    messagesFrom([newMessage('user', 'Hello'), newMessage('assistant', 'Hi th')])[1]?.end,
  ).toBe('stopped');
});

describe('the page opens with any content of the storage', () => {
  test.each([
    ['not JSON', '{'],
    ['not a list', '{"id":"a"}'],
    ['null', 'null'],
    ['strange items', '[null, 7, {"id": 1, "messages": []}, {"id": "a", "messages": {}}]'],
  ])('%s', (_, text) => {
    localStorage.setItem(storageKey, text);
    expect(fromBrowser(localStorage)).toEqual([]);
  });

  test('invalid messages are left out', () => {
    const messages = [
      null,
      { role: 'system', content: 'x' },
      { role: 'user' },
      { role: 'user', content: 'kept', stats: 'no', error: 3 },
    ];
    localStorage.setItem(storageKey, JSON.stringify([{ id: 'a', messages, updatedAt: 'never' }]));
    const [conversation] = fromBrowser(localStorage);
    expect(conversation).toMatchObject({ id: 'a', title: '', updatedAt: 0 });
    expect(conversation?.messages).toMatchObject([
      { role: 'user', content: 'kept', stats: null, error: null },
    ]);
  });
});

test('ids that are valid file names', () => {
  for (let i = 0; i < 20; i++) expect(validId(newId())).toBe(true);
  for (const id of ['', '-a', 'A', 'a/b', '..', 'a'.repeat(65)])
    expect(validId(id), id).toBe(false);
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
