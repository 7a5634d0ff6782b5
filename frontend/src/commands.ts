// The commands of the command palette for the current state: pages, engine, models, endpoint, new
// chat.
import { appearances } from './lib/appearance';
import { diskBytes } from './lib/format';
import { commandKey, copyText } from './lib/host';
import type { Command } from './lib/palette';
import type { ChatStore } from './lib/stores/chat.svelte';
import type { EngineStore } from './lib/stores/engine.svelte';
import type { Router } from './lib/stores/router.svelte';
import type { SettingsStore } from './lib/stores/settings.svelte';
import type { Page } from './pages';
import { palette as t } from './strings/shared';

export function commandsFor(
  engine: EngineStore,
  chat: ChatStore,
  settings: SettingsStore,
  router: Router,
  pages: readonly Page[],
): Command[] {
  const action = (id: string, label: string, note: string, run: () => unknown): Command => ({
    id,
    label,
    note,
    group: t.groups.action,
    run: () => void run(),
  });
  const live = engine.connection.status === 'live';
  const url = engine.state?.endpoint.url;
  return [
    ...pages.map((page, index): Command => ({
      id: `page-${page.id}`,
      label: page.label,
      note: `${commandKey}${index + 1}`,
      group: t.groups.page,
      run: () => router.go(page.id),
    })),
    action('new-chat', t.newChat, '', () => {
      chat.startNew();
      router.go('chat');
    }),
    action('new-private-chat', t.newPrivateChat, '', () => {
      chat.startNew(true);
      router.go('chat');
    }),
    ...(live && engine.on
      ? [action('stop', t.stopEngine, engine.model?.name ?? '', () => engine.stop())]
      : []),
    ...(live && !engine.on && engine.model
      ? [action('start', t.startEngine, engine.model.name, () => engine.start())]
      : []),
    ...(url ? [action('copy-endpoint', t.copyEndpoint, url, () => copyText(url))] : []),
    ...appearances
      .filter((look) => look !== settings.appearance)
      .map((look) =>
        action(`look-${look}`, t.appearance[look], '', () => settings.setAppearance(look)),
      ),
    ...engine.models.all
      .filter((model) => live && !model.loaded && !model.error && model.fits !== 'no')
      .map((model): Command => ({
        id: `model-${model.id}`,
        label: t.startModel(model.name),
        note: diskBytes(model.sizeBytes),
        group: t.groups.model,
        run: () => void engine.run(model.id),
      })),
  ];
}
