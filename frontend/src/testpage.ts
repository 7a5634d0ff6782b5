// What tests of whole pages share: a mounted page or window, and fake time.
import { flushSync, mount, unmount, type Component } from 'svelte';
import { afterEach, beforeEach, vi } from 'vitest';
import App from './App.svelte';
import type { Backend } from './lib/backend/backend';
import { CacheStore } from './lib/stores/cache.svelte';
import { ChatStore } from './lib/stores/chat.svelte';
import { FakeBackend, fakeState } from './lib/backend/fake';
import { EngineStore } from './lib/stores/engine.svelte';
import { Router } from './lib/stores/router.svelte';
import { SettingsStore } from './lib/stores/settings.svelte';
import { TryStore } from './lib/stores/tries.svelte';
import { WelcomeStore } from './lib/stores/welcome.svelte';
import { pages } from './pages';

/** Mounts the whole window in an empty page. The caller unmounts `app` and closes the engine. */
export function mountApp(backend: Backend, engine: EngineStore) {
  document.body.innerHTML = '';
  const chat = new ChatStore(backend, localStorage);
  const router = new Router(() => pages.map(({ id }) => id));
  const app: Record<string, unknown> = mount(App, {
    target: document.body,
    props: {
      engine,
      chat,
      cache: new CacheStore(backend),
      settings: new SettingsStore(backend, localStorage),
      tries: new TryStore(),
      welcome: new WelcomeStore(backend),
      router,
      pages,
    },
  });
  return { app, chat, router };
}

/** Lets fake time pass, and the page follow. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  flushSync();
}

/**
 * Prepares the tests of a page: time is fake, and the page is unmounted after each test. Returns a
 * function that mounts the page over a fake backend, after `change`, in place of an earlier one.
 */
export function testPage<Props extends Record<string, unknown>>(
  view: Component<Props>,
  propsOf: (engine: EngineStore, backend: FakeBackend) => Props,
  settleMs = 10,
) {
  const ends: (() => void)[] = [];
  beforeEach(() => {
    vi.useFakeTimers();
    localStorage.clear();
  });
  afterEach(() => {
    for (const end of ends.splice(0)) end();
    vi.useRealTimers();
  });
  return async (change: (backend: FakeBackend) => void = () => {}) => {
    for (const end of ends.splice(0)) end();
    const backend = new FakeBackend(0, fakeState(Date.now()));
    change(backend);
    const engine = new EngineStore(backend);
    document.body.innerHTML = '';
    const page = mount(view, { target: document.body, props: propsOf(engine, backend) });
    let left = false;
    /** Leaves the page; the engine goes on. */
    const leave = () => {
      if (!left) void unmount(page as Record<string, unknown>);
      left = true;
    };
    ends.push(() => {
      leave();
      engine.close();
    });
    flushSync();
    await pass(settleMs);
    return { backend, engine, leave };
  };
}
