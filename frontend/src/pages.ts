// The pages of the window, in the order of the sidebar. Settings comes last and has the key of all
// Macs' settings. App, router, sidebar and command palette read this table: a page is one view,
// with its strings, and one row.
import type { Component } from 'svelte';
import type { IconName } from './components/shared/icons';
import type { CacheStore } from './lib/stores/cache.svelte';
import type { ChatStore } from './lib/stores/chat.svelte';
import type { EngineStore } from './lib/stores/engine.svelte';
import type { SettingsStore } from './lib/stores/settings.svelte';
import type { TryStore } from './lib/stores/tries.svelte';
import type { WelcomeStore } from './lib/stores/welcome.svelte';
import Adapt from './views/Adapt.svelte';
import Agents from './views/Agents.svelte';
import Cache from './views/Cache.svelte';
import Chat from './views/Chat.svelte';
import Memory from './views/Memory.svelte';
import Models from './views/Models.svelte';
import Overview from './views/Overview.svelte';
import Settings from './views/Settings.svelte';
import Try from './views/Try.svelte';
import { adaptPage } from './strings/adapt';
import { agentsPage } from './strings/agents';
import { cache } from './strings/cache';
import { chat } from './strings/chat';
import { memory } from './strings/memory';
import { models } from './strings/models';
import { overview } from './strings/overview';
import { settings } from './strings/settings';
import { tryPage } from './strings/try';

/** The props that every view receives. A view uses those that it needs. */
export interface ViewProps {
  engine: EngineStore;
  chat: ChatStore;
  cache: CacheStore;
  settings: SettingsStore;
  tries: TryStore;
  welcome: WelcomeStore;
}

export interface Page {
  /** The page's id in the address: #page=chat. */
  id: string;
  label: string;
  icon: IconName;
  /** The key that goes there, with Cmd or Ctrl; the Mac's menu has the same (menu.go). */
  key: string;
  view: Component<ViewProps>;
}

/** The first page is shown when the address names none. */
export const pages: Page[] = [
  { id: 'overview', label: overview.title, icon: 'gauge', key: '1', view: Overview },
  { id: 'chat', label: chat.title, icon: 'chat', key: '2', view: Chat },
  { id: 'models', label: models.title, icon: 'models', key: '3', view: Models },
  { id: 'memory', label: memory.title, icon: 'memory', key: '4', view: Memory },
  { id: 'cache', label: cache.title, icon: 'disk', key: '5', view: Cache },
  { id: 'try', label: tryPage.title, icon: 'flask', key: '6', view: Try },
  { id: 'agents', label: agentsPage.title, icon: 'terminal', key: '7', view: Agents },
  { id: 'adapt', label: adaptPage.title, icon: 'adapt', key: '8', view: Adapt },
  { id: 'settings', label: settings.title, icon: 'sliders', key: ',', view: Settings },
];
