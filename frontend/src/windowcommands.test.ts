// The keys of the window, in a browser, in the window of Linux, and in that of a Mac.
import { afterEach, expect, test, vi } from 'vitest';
import { pages } from './pages';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

const key = (name: string, modifiers: KeyboardEventInit = { ctrlKey: true }) =>
  new KeyboardEvent('keydown', { key: name, ...modifiers });

async function commands(window: 'browser' | 'linux' | 'mac') {
  if (window !== 'browser') vi.stubGlobal('go', { main: { Frame: {} } });
  if (window === 'mac') vi.stubGlobal('navigator', { platform: 'MacIntel' });
  vi.resetModules();
  const { commandOf } = await import('./windowcommands');
  return (event: KeyboardEvent) => commandOf(event, pages);
}

test('a browser keeps its own keys', async () => {
  const commandOf = await commands('browser');
  expect(['1', '6', '7', '8', ',', 'k', 'F'].map((name) => commandOf(key(name)))).toEqual([
    'page-overview',
    'page-try',
    'page-agents',
    'page-adapt',
    'page-settings',
    'palette',
    'find',
  ]);
  for (const name of ['n', 'w', '+', '-', '0', '9']) expect(commandOf(key(name))).toBe('');
  expect(commandOf(key('1', {}))).toBe('');
  expect(commandOf(key('1', { ctrlKey: true, altKey: true }))).toBe('');
});

test('the window has the keys of an app', async () => {
  const commandOf = await commands('linux');
  expect(['n', 'w', '=', '+', '-', '0'].map((name) => commandOf(key(name)))).toEqual([
    'new-chat',
    'close',
    'zoom-in',
    'zoom-in',
    'zoom-out',
    'zoom-reset',
  ]);
  const shift = { ctrlKey: true, shiftKey: true };
  expect(commandOf(key('N', shift))).toBe('new-private-chat');
  expect(commandOf(key('+', shift))).toBe('zoom-in');
  expect(commandOf(key('K', shift))).toBe('');
});

test('in the window of a Mac the menus have them', async () => {
  const commandOf = await commands('mac');
  for (const name of ['1', ',', 'k', 'n', 'w'])
    expect(commandOf(key(name, { metaKey: true }))).toBe('');
});
