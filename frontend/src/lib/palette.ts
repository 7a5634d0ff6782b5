// The command palette's search: the commands that match the typed text, best first.

export interface Command {
  id: string;
  label: string;
  /** A detail behind the label: a page's keys, a model's size. */
  note: string;
  /** Other words that find it. They are not shown. */
  words?: string;
  /** The kind of command: page, action or model. */
  group: string;
  run: () => void;
}

/** The most commands that are listed. */
export const mostShown = 50;

/**
 * The commands that have all words in label, group, note or other words. Commands whose label
 * begins with the typed text come first, then those with a label word that begins with a typed
 * word, then the others. Each group keeps its order.
 */
export function matches(commands: readonly Command[], typed: string): Command[] {
  const whole = typed.trim().toLowerCase();
  if (whole === '') return commands.slice(0, mostShown);
  const words = whole.split(/\s+/);
  const ranks: Command[][] = [[], [], []];
  for (const command of commands) {
    const label = command.label.toLowerCase();
    const { group, note, words: others = '' } = command;
    const all = `${label} ${group} ${note} ${others}`.toLowerCase();
    if (!words.every((word) => all.includes(word))) continue;
    const begins = words.some((word) =>
      label.split(/[\s/_.-]+/).some((part) => part.startsWith(word)),
    );
    ranks[label.startsWith(whole) ? 0 : begins ? 1 : 2]!.push(command);
  }
  return ranks.flat().slice(0, mostShown);
}
