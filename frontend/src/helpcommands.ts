// The commands of the palette that show the help and shortcuts sheets.
import type { Command } from './lib/palette';
import { helpSheet, shortcutSheet } from './strings/help';
import { palette as t } from './strings/shared';

export type HelpName = 'help' | 'shortcuts';

/** The commands with those of help, before the first model. */
export function withHelp(commands: Command[], show: (name: HelpName) => void): Command[] {
  const command = (id: HelpName, label: string, note: string): Command => ({
    id,
    label,
    note,
    group: t.groups.action,
    run: () => show(id),
  });
  const help = [
    command('help', helpSheet.title, helpSheet.slow.title),
    command('shortcuts', shortcutSheet.title, shortcutSheet.keys.shortcuts),
  ];
  const models = commands.filter(({ group }) => group === t.groups.model);
  return [...commands.filter(({ group }) => group !== t.groups.model), ...help, ...models];
}
