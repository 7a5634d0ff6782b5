import { expect, test } from 'vitest';
import { messagesWith, rangesOf } from './find';
import { newMessage } from './stores/conversations';

test('messages that contain a text, ignoring case', () => {
  const messages = ['One cache', 'two', 'The CACHE'].map((text) => newMessage('user', text));
  expect(messagesWith(messages, 'cache')).toEqual([0, 2]);
  expect(messagesWith(messages, ' one c')).toEqual([0]);
  expect(messagesWith(messages, '  ')).toEqual([]);
});

test('the places of a text in the page', () => {
  const page = document.createElement('div');
  page.innerHTML = '<p>A cache, <b>Cache</b></p><pre>cachecache</pre>';
  expect(rangesOf(page, 'cache').map((range) => range.toString())).toEqual([
    'cache',
    'Cache',
    'cache',
    'cache',
  ]);
  expect(rangesOf(page, 'cache', 2)).toHaveLength(2);
  expect(rangesOf(page, ' ')).toEqual([]);
});
