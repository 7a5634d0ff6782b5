// The commands of the command palette for the current state: pages, engine, models, endpoint, new
// chat.
import { appearances } from './lib/appearance';
import { diskBytes } from './lib/format';
import { commandKey, copyText, inWindow } from './lib/host';
import type { Command } from './lib/palette';
import type { EngineStore } from './lib/stores/engine.svelte';
import type { Router } from './lib/stores/router.svelte';
import type { SettingsStore } from './lib/stores/settings.svelte';
import type { Page } from './pages';
import { helpCard } from './strings/help';
import { keysCard, settings as settingsText, storedCard, updatesCard } from './strings/settings';
import { palette as t } from './strings/shared';
import { goTo, runWindowCommand, show, type WindowParts } from './windowcommands';

/** What pages have below their top: the words, the page, and the element to go to. */
const places: { id: string; label: string; page: string; selector: string; words?: string }[] = [
  { id: 'wired', label: t.wired, page: 'memory', selector: '#wired-title' },
  { id: 'what-if', label: t.whatIf, page: 'memory', selector: '#what-if-title' },
  { id: 'port', label: t.port, page: 'settings', selector: '#setting-port-help' },
  { id: 'keys', label: keysCard.title, page: 'settings', selector: '#settings-keys' },
  { id: 'log', label: settingsText.log, page: 'settings', selector: '#settings-log' },
  { id: 'stored', label: storedCard.title, page: 'settings', selector: '#settings-stored' },
  {
    id: 'report',
    label: helpCard.report,
    page: 'settings',
    selector: '#settings-help',
    words: t.words.report,
  },
  {
    id: 'updates',
    label: updatesCard.title,
    page: 'settings',
    selector: '#settings-updates',
    words: t.words.updates,
  },
  {
    id: 'speed',
    label: t.speed,
    page: 'overview',
    selector: '#speed-title',
    words: t.words.speed,
  },
  { id: 'login', label: t.login, page: 'settings', selector: '#setting-startAtLogin-help' },
];

export function commandsFor(
  engine: EngineStore,
  settings: SettingsStore,
  router: Router,
  pages: readonly Page[],
  parts: WindowParts,
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
    ...pages.map((page): Command => ({
      id: `page-${page.id}`,
      label: page.label,
      note: `${commandKey}${page.key}`,
      group: t.groups.page,
      run: () => goTo(router, page.id),
    })),
    ...(['new-chat', 'new-private-chat', 'download', 'import', 'clear-cache'] as const).map((id) =>
      action(id, t.window[id], '', () => runWindowCommand(id, parts)),
    ),
    ...(inWindow() ? (['zoom-in', 'zoom-out', 'zoom-reset'] as const) : []).map((id) =>
      action(id, t.window[id], '', () => runWindowCommand(id, parts)),
    ),
    ...places.map(({ id, label, page, selector, words = '' }): Command => {
      const note = pages.find((one) => one.id === page)?.label ?? '';
      return {
        id,
        label,
        note,
        words,
        group: t.groups.page,
        run: () => void show(router, page, selector),
      };
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
