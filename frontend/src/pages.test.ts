// A new page needs only a view and a row in pages.ts. The sidebar, the keys, the address, the
// command palette and the frame then work with it.
import { flushSync, mount, unmount } from 'svelte';
import { expect, test, vi } from 'vitest';
import App from './App.svelte';
import { commandsFor } from './commands';
import { FakeBackend } from './lib/backend/fake';
import { CacheStore } from './lib/stores/cache.svelte';
import { ChatStore } from './lib/stores/chat.svelte';
import { EngineStore } from './lib/stores/engine.svelte';
import { Router } from './lib/stores/router.svelte';
import { SettingsStore } from './lib/stores/settings.svelte';
import { TryStore } from './lib/stores/tries.svelte';
import { WelcomeStore } from './lib/stores/welcome.svelte';
import { pages, type Page } from './pages';
import Unauthorized from './views/Unauthorized.svelte';

test('ids are unique, and the keys reach every page', () => {
  expect(new Set(pages.map(({ id }) => id)).size).toBe(pages.length);
  expect(pages.length).toBeLessThan(10);
});

test('a new row in the table is a new page', () => {
  vi.useFakeTimers();
  location.hash = '#page=chat';
  const toy: Page = {
    id: 'toy',
    label: 'Toy',
    icon: 'edit',
    key: '9',
    view: Unauthorized as Page['view'],
  };
  const table = [...pages, toy];
  const router = new Router(() => table.map(({ id }) => id));
  const backend = new FakeBackend();
  const engine = new EngineStore(backend);
  const chat = new ChatStore(backend, localStorage);
  const settings = new SettingsStore(backend, localStorage);
  const stores = { engine, chat, settings, cache: new CacheStore(backend), tries: new TryStore() };
  const props = { ...stores, welcome: new WelcomeStore(backend), router, pages: table };
  const app = mount(App, { target: document.body, props });
  flushSync();

  window.dispatchEvent(new KeyboardEvent('keydown', { key: '9', metaKey: true }));
  flushSync();
  expect(location.hash).toBe('#page=toy');
  expect(document.querySelector('nav [aria-current]')?.textContent).toContain('Toy');
  expect(document.querySelector('main h1')?.textContent).toContain('not connected');
  expect(document.title).toBe('Toy – Headroom');
  const parts = { chat, router, storage: localStorage, togglePalette: () => {} };
  expect(commandsFor(engine, settings, router, table, parts).map(({ id }) => id)).toContain(
    'page-toy',
  );
  expect(new Router(() => table.map(({ id }) => id)).page).toBe('toy');

  void unmount(app);
  engine.close();
  vi.useRealTimers();
});
