import { expect, test, vi } from 'vitest';
import { usableLanguage } from './language';

test.each([
  ['de-CH', 'de-CH'],
  ['en-us', 'en-US'],
  ['C', 'en-US'],
  ['POSIX_', 'en-US'],
  ['', 'en-US'],
])('%j becomes %j', (said, want) => expect(usableLanguage(said)).toBe(want));

test('charts load where the desktop has the locale C', async () => {
  vi.spyOn(navigator, 'language', 'get').mockReturnValue('C');
  vi.resetModules();
  await import('./language');
  expect(navigator.language).toBe('en-US');
  await expect(import('uplot')).resolves.toBeDefined();
  Reflect.deleteProperty(navigator, 'language');
});
