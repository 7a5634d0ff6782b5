// The commands of the command palette for the current state: pages, engine, models, endpoint, new
// chat.
import type { Appearance } from './lib/appearance';
import { diskBytes } from './lib/format';
import { commandKey, copyText } from './lib/host';
import type { Command } from './lib/palette';
import type { ChatStore } from './lib/stores/chat.svelte';
import type { EngineStore } from './lib/stores/engine.svelte';
import type { Router } from './lib/stores/router.svelte';
import type { SettingsStore } from './lib/stores/settings.svelte';
import type { Page } from './pages';

const looks: Record<Appearance, string> = { system: 'system', light: 'light', dark: 'dark' };

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
    group: 'Action',
    run: () => void run(),
  });
  const live = engine.connection.status === 'live';
  const url = engine.state?.endpoint.url;
  return [
    ...pages.map((page, index): Command => ({
      id: `page-${page.id}`,
      label: page.label,
      note: `${commandKey}${index + 1}`,
      group: 'Page',
      run: () => router.go(page.id),
    })),
    action('new-chat', 'New chat', '', () => {
      chat.startNew();
      router.go('chat');
    }),
    ...(live && engine.on
      ? [action('stop', 'Stop the engine', engine.model?.name ?? '', () => engine.stop())]
      : []),
    ...(live && !engine.on && engine.model
      ? [action('start', 'Start the engine', engine.model.name, () => engine.start())]
      : []),
    ...(url
      ? [action('copy-endpoint', 'Copy the endpoint\u2019s address', url, () => copyText(url))]
      : []),
    ...(['system', 'light', 'dark'] as const)
      .filter((look) => look !== settings.appearance)
      .map((look) =>
        action(`look-${look}`, `Appearance: ${looks[look]}`, '', () =>
          settings.setAppearance(look),
        ),
      ),
    ...engine.models.all
      .filter((model) => live && !model.loaded && !model.error && model.fits !== 'no')
      .map((model): Command => ({
        id: `model-${model.id}`,
        label: `Start ${model.name}`,
        note: diskBytes(model.sizeBytes),
        group: 'Model',
        run: () => void engine.run(model.id),
      })),
  ];
}
