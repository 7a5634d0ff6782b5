import { beforeEach, expect, test } from 'vitest';
import { takeToken } from './token';

beforeEach(() => {
  sessionStorage.clear();
  history.replaceState(null, '', '/');
});

test('the token leaves the address and is remembered for this tab', () => {
  location.hash = '#token=abc%2B1&page=chat';
  expect(takeToken()).toBe('abc+1');
  expect(location.hash).toBe('#page=chat');
  expect(takeToken()).toBe('abc+1');
});

test('a new token replaces the old one', () => {
  location.hash = '#token=old';
  takeToken();
  location.hash = '#token=new';
  expect(takeToken()).toBe('new');
  expect(location.hash).toBe('');
});

test('without a token the result is empty', () => expect(takeToken()).toBe(''));
