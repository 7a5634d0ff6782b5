// Headroom's general settings and its log, as the Settings page sees them. A change applies at once
// and can be undone.
import { HeadroomError, asHeadroomError, type Backend } from '../backend/backend';
import type { GeneralChange, GeneralSettings, LogLevel, LogLine } from '../backend/types';
import { applyAppearance, saveAppearance, storedAppearance, type Appearance } from '../appearance';
import { settings as t } from '../../strings/settings';

/** The pause between two requests of the log while it is shown. */
const logPauseMs = 2000;
/** The most lines of the log that are held. */
const mostLines = 5000;

export class SettingsStore {
  readonly backend: Backend;
  readonly #storage: Storage;
  /** null until the first answer. */
  settings = $state.raw<GeneralSettings | null>(null);
  error = $state.raw<HeadroomError | null>(null);
  /** The result of the last change, as a text. */
  done = $state('');
  /** The change that undoes the last one; null: none. */
  undo = $state.raw<GeneralChange | null>(null);
  appearance = $state<Appearance>('system');

  lines = $state.raw<LogLine[]>([]);
  #last = 0;

  constructor(backend: Backend, storage: Storage) {
    this.backend = backend;
    this.#storage = storage;
    this.setAppearance(storedAppearance(storage));
  }

  async load(): Promise<void> {
    try {
      this.settings = await this.backend.generalSettings();
      this.error = null;
    } catch (cause) {
      this.error = asHeadroomError(cause);
    }
  }

  /** Changes settings, and shows `said`. Resolves to whether that succeeded. */
  async change(change: GeneralChange, said: string): Promise<boolean> {
    const before = this.settings;
    if (!before) return false;
    this.error = null;
    this.done = '';
    try {
      this.settings = await this.backend.changeGeneral(change);
      this.done = said;
      this.undo = Object.fromEntries(
        Object.keys(change).map((name) => [name, before[name as keyof GeneralChange]]),
      );
      return true;
    } catch (cause) {
      this.error = asHeadroomError(cause);
      return false;
    }
  }

  async undoChange(): Promise<void> {
    const change = this.undo;
    if (!change) return;
    if (await this.change(change, t.restored)) this.undo = null;
  }

  setAppearance(appearance: Appearance): void {
    this.appearance = appearance;
    saveAppearance(this.#storage, appearance);
    applyAppearance(document, appearance);
  }

  /** Follows the log until the returned function is called. */
  followLog(): () => void {
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      await this.#look();
      if (!ended) timer = setTimeout(look, logPauseMs);
    };
    void look();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }

  async #look(): Promise<void> {
    try {
      const found = await this.backend.logs(this.#last);
      if (found.last < this.#last)
        this.lines = []; // another process counts from 1 again; the next request returns its lines
      else this.lines = [...this.lines, ...found.lines].slice(-mostLines);
      this.#last = found.last < this.#last ? 0 : found.last;
    } catch {
      // The banner shows that the connection is lost.
    }
  }
}

const ranks: Record<string, number> = { DEBUG: 0, INFO: 1, WARN: 2, ERROR: 3 };

/** The lines of at least that level that contain the text, ignoring case. */
export function matching(lines: readonly LogLine[], least: LogLevel, text: string): LogLine[] {
  const rank = ranks[least.toUpperCase()] ?? 0;
  const wanted = text.trim().toLowerCase();
  return lines.filter(
    (line) =>
      (ranks[line.level] ?? 3) >= rank &&
      `${line.message} ${line.fields}`.toLowerCase().includes(wanted),
  );
}

/** The lines as a text file. */
export function logText(lines: readonly LogLine[]): string {
  return lines
    .map(
      ({ at, level, message, fields }) =>
        `${new Date(at).toISOString()} ${level.padEnd(5)} ${message} ${fields}`.trimEnd() + '\n',
    )
    .join('');
}
