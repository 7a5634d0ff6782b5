// The command palette's choice: which commands have what was typed, the best first.

export interface Command {
  id: string;
  label: string;
  /** What it is about, behind the label: a page's keys, a model's state. */
  note: string;
  /** The heading it stands under. */
  group: string;
  run: () => void;
}

/** Most lines that are shown: more are found by more words. */
export const mostShown = 50;

/**
 * The commands that have all words in label, group or note. Commands whose label begins with the
 * typed text come first, then those with a word of the label that does, then the others. Each group
 * keeps its order.
 */
export function matches(commands: readonly Command[], typed: string): Command[] {
  const whole = typed.trim().toLowerCase();
  if (whole === '') return commands.slice(0, mostShown);
  const words = whole.split(/\s+/);
  const ranks: Command[][] = [[], [], []];
  for (const command of commands) {
    const label = command.label.toLowerCase();
    const all = `${label} ${command.group.toLowerCase()} ${command.note.toLowerCase()}`;
    if (!words.every((word) => all.includes(word))) continue;
    const begins = words.some((word) =>
      label.split(/[\s/_.-]+/).some((part) => part.startsWith(word)),
    );
    ranks[label.startsWith(whole) ? 0 : begins ? 1 : 2]!.push(command);
  }
  return ranks.flat().slice(0, mostShown);
}
