// The cached conversations and the finished requests, for the Cache page.
//
// The server does not push these lists. A change of the state's figures reloads them. There is a
// pause after each request, so that a long list is not requested for every token of an answer.
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
import { rowsOf, type Row } from '../cachedlist';
import { cacheDone as t } from '../../strings/cache';

/** The pause after a request: ten times the duration of the request, but at least two seconds. */
const leastPauseMs = 2000;
const pauseFactor = 10;

export class CacheStore {
  readonly backend: Backend;
  /** null until the first answer. */
  rows = $state.raw<Row[] | null>(null);
  finished = $state.raw<FinishedRequest[] | null>(null);
  settings = $state.raw<CacheSettings | null>(null);
  /** The error of the last request; the old lists stay. */
  loadError = $state.raw<HeadroomError | null>(null);
  /** The last action that failed, until the next one or until dismissed. */
  actionError = $state.raw<HeadroomError | null>(null);
  /** The result of the last action, as a text. */
  done = $state('');
  /** The model did not answer the last request: what the list says of its memory is old. */
  stale = $state(false);
  /** A removal goes on, because the model has not freed its memory yet. */
  removing = $state(false);
  /** The ids of rows with a running action. */
  working = $state.raw<ReadonlySet<string>>(new Set());

  /** The ids of the rows whose removal goes on, and the model's answers since it began. */
  #leaving: ReadonlySet<string> = new Set();
  #answers = 0;
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

  /** Loads the lists, and reloads them until the returned function is called. */
  show(state: State | null): () => void {
    this.#shown = true;
    this.#listMark = this.#requestMark = '';
    this.#dir = state?.cache.dir ?? '';
    void this.#loadSettings();
    if (state) this.update(state);
    return () => {
      this.#shown = false;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Compares the figures of a new state, and reloads the lists that have changed. */
  update(state: State): void {
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

  /** Reloads everything, after an error. */
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

  /** Deletes a conversation from the cache. Resolves to whether that succeeded. */
  async remove(row: Row): Promise<boolean> {
    return this.#act([row.id], async () => {
      const removed = await this.backend.forget(row.conversation.key);
      if (removed.pending) return this.#goesOn([row]);
      this.rows = this.rows?.filter((other) => other.id !== row.id) ?? null;
      return removedText(removed);
    });
  }

  async clear(fingerprint = ''): Promise<boolean> {
    return this.#act([], async () => {
      const removed = await this.backend.clearCache(fingerprint);
      if (removed.pending) {
        const all = this.rows ?? [];
        return this.#goesOn(
          all.filter(
            ({ conversation }) => !fingerprint || conversation.fingerprint === fingerprint,
          ),
        );
      }
      await this.#loadRows();
      return removedText(removed);
    });
  }

  /** Changes settings of the cache, and shows `said`. Resolves to whether that succeeded. */
  async change(change: CacheChange, said: string): Promise<boolean> {
    return this.#act([], async () => {
      this.settings = await this.backend.changeCache(change);
      return said;
    });
  }

  /** Starts a move of the cache, which is a job. Resolves to whether it has started. */
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
      this.#release(ids.filter((id) => !this.#leaving.has(id)));
    }
  }

  #release(ids: Iterable<string>): void {
    const free = new Set(ids);
    this.working = new Set([...this.working].filter((id) => !free.has(id)));
  }

  /** Follows a removal that goes on after its answer, until a list shows its result. */
  #goesOn(rows: readonly Row[]): string {
    const ids = rows.filter(({ conversation }) => conversation.key).map(({ id }) => id);
    this.#leaving = new Set([...this.#leaving, ...ids]);
    this.working = new Set([...this.working, ...ids]);
    this.#answers = 0;
    this.removing = true;
    this.#later();
    return '';
  }

  /**
   * Ends a removal when its rows are gone. Once the model has answered twice, it has freed its
   * memory: rows that are still listed could not be removed.
   */
  #followRemoval(): void {
    if (!this.removing) return;
    if (!this.stale) this.#answers++;
    const left = this.rows?.some(({ id }) => this.#leaving.has(id)) ?? false;
    const gone = this.#leaving.size > 0 && !left;
    if (!gone && this.#answers < 2) return;
    this.removing = false;
    this.#release(this.#leaving);
    this.#leaving = new Set();
    this.done = left ? '' : t.deletedLater;
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
      const list = await this.backend.conversations();
      this.rows = rowsOf(list.conversations);
      this.stale = list.stale;
      this.loadError = null;
      this.#followRemoval();
    } catch (cause) {
      this.loadError = asHeadroomError(cause);
    } finally {
      this.#loading = false;
      this.#notBefore = Date.now() + Math.max(leastPauseMs, pauseFactor * (Date.now() - started));
      const changes = this.stale || this.removing || mark !== this.#listMark;
      if (this.#shown && changes) this.#later();
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
