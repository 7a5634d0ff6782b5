import { expect, test } from 'vitest';
import { newMessage, type Message } from './conversations';
import { beginVersion, showVersion } from './versions';

const asked = (text: string) => newMessage('user', text);
const answered = (text: string) => newMessage('assistant', text);
const texts = (messages: Message[]) => messages.map(({ content }) => content).join(' ');
const places = ({ version, others }: Message) => `${version + 1} of ${others.length + 1}`;

test('an answer that is generated again keeps the one before, and what followed it', () => {
  const messages = [asked('q'), answered('a'), asked('more'), answered('b')];
  beginVersion(messages, 1, answered('a2'));
  expect([texts(messages), places(messages[1]!)]).toEqual(['q a2', '2 of 2']);
  beginVersion(messages, 1, answered('a3'));
  expect([texts(messages), places(messages[1]!)]).toEqual(['q a3', '3 of 3']);
  showVersion(messages, 1, 0);
  expect([texts(messages), places(messages[1]!)]).toEqual(['q a more b', '1 of 3']);
  showVersion(messages, 1, 1);
  expect([texts(messages), places(messages[1]!)]).toEqual(['q a2', '2 of 3']);
  showVersion(messages, 1, 2);
  expect([texts(messages), places(messages[1]!)]).toEqual(['q a3', '3 of 3']);
});

test('versions further on stay with the version that they belong to', () => {
  const messages = [asked('q'), answered('a'), asked('more'), answered('b')];
  beginVersion(messages, 3, answered('b2'));
  beginVersion(messages, 0, asked('q2'));
  messages.push(answered('c'));
  expect(texts(messages)).toBe('q2 c');
  showVersion(messages, 0, 0);
  expect([texts(messages), places(messages[3]!)]).toEqual(['q a more b2', '2 of 2']);
  showVersion(messages, 3, 0);
  expect(texts(messages)).toBe('q a more b');
  showVersion(messages, 0, 1);
  showVersion(messages, 0, 0);
  expect(texts(messages)).toBe('q a more b');
});

test('an answer that failed before its first word is no version', () => {
  const messages = [asked('q'), answered('')];
  beginVersion(messages, 1, answered('a'));
  expect([texts(messages), places(messages[1]!)]).toEqual(['q a', '1 of 1']);
});
