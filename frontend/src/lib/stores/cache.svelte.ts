// What is kept of conversations, and the requests that have ended, as the Cache page sees them.
//
// Both are asked for, not pushed: the state's figures say when there is something new. A long
// list is not asked for again and again while an answer is written: there is a pause after each.
import { HeadroomError, asHeadroomError, type Backend } from '../backend/backend';
import type {
  CacheChange,
  CacheSettings,
  ConversationDetail,
  FinishedRequest,
  Removed,
  State,
} from '../backend/types';
import { count, diskBytes, memoryBytes as memoryText } from '../format';
import { rowsOf, type Row } from '../kept';
import { cacheDone as t } from '../../strings/cache';

/** Between two lists at least so long, and ten times what the last one took. */
const leastPauseMs = 2000;
const pauseFactor = 10;

export class CacheStore {
  readonly backend: Backend;
  /** null until the first answer. */
  rows = $state.raw<Row[] | null>(null);
  finished = $state.raw<FinishedRequest[] | null>(null);
  settings = $state.raw<CacheSettings | null>(null);
  /** Why the lists could not be read; the old ones stay. */
  loadError = $state.raw<HeadroomError | null>(null);
  /** The last action that failed, until the next one or until dismissed. */
  actionError = $state.raw<HeadroomError | null>(null);
  /** What the last action did, for a person to read. */
  done = $state('');
  /** Ids of rows whose action is on its way. */
  working = $state.raw<ReadonlySet<string>>(new Set());

  #shown = false;
  #listMark = '';
  #dir = '';
  #requestMark = '';
  #loading = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #notBefore = 0;

  constructor(backend: Backend) {
    this.backend = backend;
  }

  /** The page is shown until the returned function is called; lists are read only meanwhile. */
  show(state: State | null): () => void {
    this.#shown = true;
    this.#listMark = this.#requestMark = '';
    this.#dir = state?.cache.dir ?? '';
    void this.#loadSettings();
    if (state) this.notice(state);
    return () => {
      this.#shown = false;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Looks at a new state, and asks for what has changed. */
  notice(state: State): void {
    if (!this.#shown) return;
    const { cache, engine, lastFinished } = state;
    if (cache.dir !== this.#dir) {
      this.#dir = cache.dir;
      void this.#loadSettings();
    }
    const running = engine.status === 'ready' || engine.status === 'busy';
    const requestMark = `${engine.model} ${running} ${lastFinished}`;
    if (requestMark !== this.#requestMark) {
      this.#requestMark = requestMark;
      void this.#loadFinished();
    }
    const { on, entries, bytes, hits, memoryBytes } = cache;
    const listMark = [requestMark, on, entries, bytes, hits, memoryBytes].join(' ');
    if (listMark !== this.#listMark) {
      this.#listMark = listMark;
      this.#later();
    }
  }

  /** Reads everything again, as a person may ask after an error. */
  async reload(): Promise<void> {
    await Promise.all([this.#loadRows(), this.#loadFinished(), this.#loadSettings()]);
  }

  detail(key: string): Promise<ConversationDetail> {
    return this.backend.conversation(key);
  }

  async pin(row: Row, pinned: boolean): Promise<void> {
    await this.#act([row.id], async () => {
      await this.backend.pin(row.conversation.key, pinned);
      this.#replace(row.id, (old) => ({ ...old, conversation: { ...old.conversation, pinned } }));
      return pinned ? t.pinned : t.unpinned;
    });
  }

  /** Resolves to whether it is gone. */
  async forget(row: Row): Promise<boolean> {
    return this.#act([row.id], async () => {
      const removed = await this.backend.forget(row.conversation.key);
      this.rows = this.rows?.filter((other) => other.id !== row.id) ?? null;
      return removedText(removed);
    });
  }

  async clear(fingerprint = ''): Promise<boolean> {
    return this.#act([], async () => {
      const removed = await this.backend.clearCache(fingerprint);
      await this.#loadRows();
      return removedText(removed);
    });
  }

  /** Resolves to whether it holds. `said` is what is told then. */
  async change(change: CacheChange, said: string): Promise<boolean> {
    return this.#act([], async () => {
      this.settings = await this.backend.changeCache(change);
      return said;
    });
  }

  /** Begins to move what is kept; the job tells the rest. Resolves to whether it has begun. */
  async move(dir: string): Promise<boolean> {
    return this.#act([], async () => {
      const { dir: to, bytes } = await this.backend.moveCache(dir);
      return t.moving(diskBytes(bytes), to);
    });
  }

  dismissError(): void {
    this.actionError = null;
  }

  async #act(ids: string[], action: () => Promise<string>): Promise<boolean> {
    this.actionError = null;
    this.done = '';
    this.working = new Set([...this.working, ...ids]);
    try {
      this.done = await action();
      return true;
    } catch (cause) {
      this.actionError = asHeadroomError(cause);
      return false;
    } finally {
      this.working = new Set([...this.working].filter((id) => !ids.includes(id)));
    }
  }

  #replace(id: string, change: (row: Row) => Row): void {
    this.rows = this.rows?.map((row) => (row.id === id ? change(row) : row)) ?? null;
  }

  #later(): void {
    if (this.#timer !== undefined || this.#loading) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        void this.#loadRows();
      },
      Math.max(0, this.#notBefore - Date.now()),
    );
  }

  async #loadRows(): Promise<void> {
    if (this.#loading) return;
    this.#loading = true;
    const mark = this.#listMark;
    const started = Date.now();
    try {
      this.rows = rowsOf((await this.backend.conversations()).conversations);
      this.loadError = null;
    } catch (cause) {
      this.loadError = asHeadroomError(cause);
    } finally {
      this.#loading = false;
      this.#notBefore = Date.now() + Math.max(leastPauseMs, pauseFactor * (Date.now() - started));
      if (this.#shown && mark !== this.#listMark) this.#later();
    }
  }

  async #loadFinished(): Promise<void> {
    try {
      this.finished = await this.backend.finished();
    } catch (cause) {
      this.loadError = asHeadroomError(cause);
    }
  }

  async #loadSettings(): Promise<void> {
    try {
      this.settings = await this.backend.cacheSettings();
    } catch {
      this.settings = null; // A server without settings: the page shows the figures alone.
    }
  }
}

function removedText({ entries, bytes, memoryBytes }: Removed): string {
  if (entries === 0 && memoryBytes === 0) return t.nothingDeleted;
  const figures = [count(entries), diskBytes(bytes)] as const;
  return memoryBytes > 0
    ? t.deletedWithMemory(...figures, memoryText(memoryBytes))
    : t.deleted(...figures);
}
