// What tests of whole pages share: the mounted window.
import { mount } from 'svelte';
import App from './App.svelte';
import type { Backend } from './lib/backend/backend';
import { CacheStore } from './lib/stores/cache.svelte';
import { ChatStore } from './lib/stores/chat.svelte';
import type { EngineStore } from './lib/stores/engine.svelte';
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
