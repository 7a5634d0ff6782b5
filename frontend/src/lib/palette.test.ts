import { expect, test } from 'vitest';
import { matches, mostShown, type Command } from './palette';

const command = (label: string, group = 'Pages', note = ''): Command => ({
  id: label,
  label,
  note,
  group,
  run: () => {},
});
const commands = [
  command('Overview'),
  command('Chat'),
  command('New chat', 'Actions'),
  command('Start org/Qwen-Chat-4bit', 'Models', '18.6 GB'),
  command('Cache'),
];
const labels = (typed: string) => matches(commands, typed).map(({ label }) => label);

test.each([
  ['', ['Overview', 'Chat', 'New chat', 'Start org/Qwen-Chat-4bit', 'Cache']],
  ['cha', ['Chat', 'New chat', 'Start org/Qwen-Chat-4bit']],
  ['QWEN', ['Start org/Qwen-Chat-4bit']],
  ['models 4bit', ['Start org/Qwen-Chat-4bit']],
  ['18.6', ['Start org/Qwen-Chat-4bit']],
  ['verv', ['Overview']],
  ['nothing like it', []],
])('"%s"', (typed, found) => expect(labels(typed)).toEqual(found));

test('of a thousand models, fifty are listed', () => {
  expect(
    matches(
      Array.from({ length: 1000 }, (_, index) => command(`m${index}`)),
      'm',
    ),
  ).toHaveLength(mostShown);
});
