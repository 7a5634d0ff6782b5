// Creates the backend and the stores, and mounts the app.
import './lib/language'; // first: uPlot formats with Intl when it loads
import { mount } from 'svelte';
import App from './App.svelte';
import type { Backend } from './lib/backend/backend';
import { HttpBackend } from './lib/backend/http';
import { takeToken } from './lib/backend/token';
import { firstPlace, followLink, inMacWindow, inWindow, refuseDrops } from './lib/host';
import { CacheStore } from './lib/stores/cache.svelte';
import { ChatStore } from './lib/stores/chat.svelte';
import { EngineStore } from './lib/stores/engine.svelte';
import { Router } from './lib/stores/router.svelte';
import { SettingsStore } from './lib/stores/settings.svelte';
import { TryStore } from './lib/stores/tries.svelte';
import { WelcomeStore } from './lib/stores/welcome.svelte';
import { browserStorage } from './lib/storage';
import { setZoom, storedZoom } from './lib/zoom';
import { pages } from './pages';
import './styles/tokens.css';
import './styles/base.css';

async function pickBackend(): Promise<Backend> {
  if (import.meta.env.DEV && new URLSearchParams(location.search).has('fake')) {
    const { FakeBackend } = await import('./lib/backend/fake');
    return new FakeBackend(60);
  }
  return new HttpBackend(takeToken());
}

const backend = await pickBackend();
refuseDrops(window);
window.addEventListener('click', followLink);

const storage = browserStorage();
if (inMacWindow()) document.documentElement.dataset.window = 'mac';
if (inWindow()) {
  const place = await firstPlace();
  if (place) history.replaceState(null, '', `#${place}`);
  void setZoom(storage, storedZoom(storage));
}

mount(App, {
  target: document.getElementById('app')!,
  props: {
    engine: new EngineStore(backend),
    chat: new ChatStore(backend, storage),
    cache: new CacheStore(backend),
    settings: new SettingsStore(backend, storage),
    tries: new TryStore(),
    welcome: new WelcomeStore(backend),
    router: new Router(() => pages.map(({ id }) => id), inWindow() ? storage : null),
    storage,
    pages,
  },
});
