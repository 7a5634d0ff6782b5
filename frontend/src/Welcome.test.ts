// Tests the welcome with the fake backend, as a user sees and operates it.
import { flushSync, mount, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import App from './App.svelte';
import { FakeBackend, fakeState } from './lib/backend/fake';
import { CacheStore } from './lib/stores/cache.svelte';
import { ChatStore } from './lib/stores/chat.svelte';
import { EngineStore } from './lib/stores/engine.svelte';
import { Router } from './lib/stores/router.svelte';
import { pages } from './pages';
import { SettingsStore } from './lib/stores/settings.svelte';
import { TryStore } from './lib/stores/tries.svelte';
import { WelcomeStore } from './lib/stores/welcome.svelte';

let backend: FakeBackend;
let engine: EngineStore;
let app: Record<string, unknown> | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  localStorage.clear();
  location.hash = '';
  Element.prototype.scrollTo = () => {};
  vi.stubGlobal(
    'ResizeObserver',
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
});

afterEach(() => {
  if (app) void unmount(app);
  app = null;
  engine.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function open(
  change: (backend: FakeBackend, state: ReturnType<typeof fakeState>) => void = () => {},
) {
  const state = fakeState(Date.now());
  backend = new FakeBackend(2, state);
  backend.general = { ...backend.general, welcomed: false };
  change(backend, state);
  engine = new EngineStore(backend);
  document.body.innerHTML = '';
  app = mount(App, {
    target: document.body,
    props: {
      engine,
      chat: new ChatStore(backend, localStorage),
      cache: new CacheStore(backend),
      settings: new SettingsStore(backend, localStorage),
      tries: new TryStore(),
      welcome: new WelcomeStore(backend),
      router: new Router(() => pages.map(({ id }) => id)),
      pages,
    },
  });
  await pass(20);
}

async function pass(ms: number) {
  await vi.advanceTimersByTimeAsync(ms);
  flushSync();
}

const dialog = () => document.querySelector('dialog');
const text = () => dialog()?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
const general = () => backend.calls.filter((call) => call.startsWith('general'));

async function press(name: string) {
  const label = (element: Element) =>
    element.getAttribute('aria-label') ?? element.textContent?.trim();
  const found = [...dialog()!.querySelectorAll('button')].find(
    (element) => label(element) === name,
  );
  if (!found) throw new Error(`no button ${name} in ${text()}`);
  found.click();
  await pass(10);
}

/** Advances the fake clock until the answer is complete. */
async function answered() {
  for (let looks = 0; looks < 200 && !text().includes('It works'); looks++) await pass(100);
}

test('three steps lead to an answer; opening Chat ends the welcome', async () => {
  await open();
  expect(text()).toContain('Step 1 of 3');
  expect(text()).toContain(engine.state!.endpoint.url);
  expect(document.activeElement?.textContent).toBe('Welcome to Headroom');
  await press('Next');
  expect(document.activeElement?.textContent).toBe('What fits here');
  expect(text()).toMatch(/available for a model now.*On this computer/);
  await press('Back');
  expect(text()).toContain('Step 1 of 3');
  await press('Next');
  await press('Next');
  expect(text()).not.toContain('It works');
  await press('Ask');
  await answered();
  expect(text()).toContain('It works');
  expect(general()).toEqual([]);
  await press('Open Chat');
  expect(dialog()).toBeNull();
  expect(general()).toEqual(['general {"welcomed":true}']);
  expect(document.body.textContent).toContain('What is a KV cache?');
});

test('asking the question starts a stopped engine', async () => {
  await open((_, state) => {
    state.engine.status = 'stopped';
    state.engine.model = '';
  });
  await press('Next');
  await press('Next');
  await press('Ask');
  await answered();
  expect(backend.calls.some((call) => call.startsWith('start'))).toBe(true);
  expect(text()).toContain('It works');
});

test('the welcome can be closed at once, and then is not shown again', async () => {
  await open();
  dialog()!.dispatchEvent(new Event('cancel', { cancelable: true }));
  await pass(10);
  expect(dialog()).toBeNull();
  expect(general()).toEqual(['general {"welcomed":true}']);
  engine.close();
  if (app) void unmount(app);
  await open((fake) => (fake.general = { ...fake.general, welcomed: true }));
  expect(dialog()).toBeNull();
});

test('Settings can show the welcome again', async () => {
  await open((fake) => (fake.general = { ...fake.general, welcomed: true }));
  window.dispatchEvent(new KeyboardEvent('keydown', { key: ',', ctrlKey: true, cancelable: true }));
  await pass(20);
  document.querySelector<HTMLButtonElement>('[aria-label="Show again: the welcome"]')!.click();
  await pass(10);
  expect(text()).toContain('Step 1 of 3');
});
