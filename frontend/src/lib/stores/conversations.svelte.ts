// The conversations that Headroom stores on disk, as this page has them, and their writes.
//
// The list comes from the server; the messages of a conversation are loaded when it is opened. This
// page saves its changes automatically: a question and a finished answer at once, a running answer
// every few seconds, each time from the first changed message on. A failed write stays here and is
// retried.
//
// Another window may change the same conversation. Each write names the revision that it is based
// on. If that is no longer the last one, this page's version becomes a new conversation, so neither
// overwrites the other.
//
// A private conversation is only in this page. Nothing of it is sent to be saved.
import { asHeadroomError, type HeadroomError } from '../backend/backend';
import type { ChatsBackend, ChatSummary } from '../backend/chats';
import {
  conversationFrom,
  forgetBrowserCopies,
  fromBrowser,
  messagesFrom,
  newConversation,
  newId,
  newSetup,
  setupFrom,
  validId,
  type Conversation,
  type Setup,
} from './conversations';
import { chat as t } from '../../strings/chat';

const saveMs = 2000;
/** A longer conversation is saved less often, because each write replaces the file. */
const saveMsPerChar = 1 / 100;
const againMs = 5000;
const searchMs = 150;

export class Conversations {
  /** Latest change first. */
  all = $state<Conversation[]>([]);
  openId = $state('');
  /** The list was loaded. */
  listed = $state(false);
  /** The error of the last read or write; null after a successful one. */
  error = $state.raw<HeadroomError | null>(null);
  /** The last deleted conversation, while that can be undone. */
  removed = $state.raw<Conversation | null>(null);
  words = $state('');
  /** The excerpt of each match, by id; null: no search. */
  found = $state.raw<ReadonlyMap<string, string> | null>(null);

  /** Where the open conversation was found: it is asked for often, and there may be thousands. */
  #openAt = -1;
  readonly #disk: ChatsBackend;
  readonly #storage: Storage;
  /** By id, the first message that differs from the file. */
  readonly #unsaved = new Map<string, number>();
  readonly #saving = new Map<string, Promise<void>>();
  /** By id, the first message of the running write. */
  readonly #sent = new Map<string, number>();
  /**
   * The ids of conversations whose running write may fail, because a later write contains all of
   * it.
   */
  readonly #overtaken = new Set<string>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  #listing = false;
  #listAgain = false;
  #searchTimer: ReturnType<typeof setTimeout> | undefined;
  /** A person has opened or begun a conversation: loading the list opens no other one. */
  #chosen = false;

  constructor(disk: ChatsBackend, storage: Storage) {
    this.#disk = disk;
    this.#storage = storage;
    window.addEventListener('pagehide', () => this.flush());
  }

  get open(): Conversation | null {
    const { openId, all } = this;
    if (openId === '') return null;
    if (all[this.#openAt]?.id !== openId) this.#openAt = all.findIndex(({ id }) => id === openId);
    return all[this.#openAt] ?? null;
  }

  /** The conversations that match the search. */
  get shown(): Conversation[] {
    const found = this.found;
    if (!found) return this.all;
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    return this.all.filter((one) => found.has(one.id) || (one.private && holds(one, words)));
  }

  /** Whether closing the page loses a private conversation. */
  get losesPrivate(): boolean {
    return this.all.some((one) => one.private && one.messages.length > 0);
  }

  /** Opens a conversation; an empty id opens none. */
  show(id: string): void {
    this.#chosen = true;
    this.openId = id;
    const conversation = this.open;
    if (conversation && !conversation.loaded) void this.read(conversation);
  }

  /**
   * Adds an empty conversation to the list. Its file is written with the first change, unless it is
   * private.
   */
  begin(now: number, isPrivate = false, setup = newSetup()): Conversation {
    this.all.unshift({ ...newConversation(now, isPrivate), setup });
    const conversation = this.all[0]!;
    this.show(conversation.id);
    return conversation;
  }

  /** Loads the list: at the start, and whenever the server reports a change. */
  async refresh(): Promise<void> {
    this.#listAgain = true;
    if (this.#listing) return;
    this.#listing = true;
    try {
      while (this.#listAgain) {
        this.#listAgain = false;
        // The answer may lack conversations that are written meanwhile.
        const before = new Map(
          this.all
            .filter((one) => one.revision > 0 && !this.#busy(one))
            .map(({ id, revision }) => [id, revision]),
        );
        this.#merge(await this.#disk.list(''), before);
        if (!this.listed) await this.#moveIn();
        this.listed = true;
        this.error = null;
        if (this.found) await this.#search();
      }
      this.#saveAll();
    } catch (cause) {
      this.#failed(cause);
    } finally {
      this.#listing = false;
    }
  }

  /**
   * before: the revisions of conversations that were neither new nor changing when the list was
   * requested.
   */
  #merge(list: readonly ChatSummary[], before: ReadonlyMap<string, number>): void {
    const ids = new Set(list.map(({ id }) => id));
    const here = new Map(this.all.map((one) => [one.id, one]));
    const added: Conversation[] = [];
    for (const summary of list) {
      const one = here.get(summary.id);
      if (!one) added.push(conversationFrom(summary));
      else if (
        !this.#busy(one) &&
        summary.revision !== one.revision &&
        before.get(one.id) === one.revision
      ) {
        Object.assign(one, {
          ...conversationFrom(summary),
          messages: one.messages,
          setup: one.setup,
        });
      }
    }
    const left = [...here.values()].filter(
      (one) => ids.has(one.id) || !before.has(one.id) || this.#busy(one),
    );
    if (added.length > 0 || left.length < here.size) this.all = [...left, ...added];
    this.#order();
    if (!this.#chosen || (this.openId && !this.open)) this.openId = this.all[0]?.id ?? '';
    const open = this.open;
    if (open && !open.loaded && !this.#busy(open)) void this.read(open);
  }

  /** Sorts the list: latest change first. */
  #order(): void {
    const all = this.all;
    if (all.some((one, at) => at > 0 && all[at - 1]!.updatedAt < one.updatedAt))
      this.all = all.toSorted((a, b) => b.updatedAt - a.updatedAt);
  }

  /** Whether the conversation has unsaved changes or a running write. */
  #busy(one: Conversation): boolean {
    return one.run !== null || this.#unsaved.has(one.id) || this.#saving.has(one.id);
  }

  /** Loads the messages of a conversation. An error is shown. */
  async read(conversation: Conversation): Promise<void> {
    try {
      const { summary, messages, setup } = await this.#disk.read(conversation.id);
      if (this.#busy(conversation)) return;
      Object.assign(conversation, {
        ...conversationFrom(summary),
        messages: messagesFrom(messages),
        setup: setupFrom(setup),
        loaded: true,
      });
    } catch (cause) {
      const error = asHeadroomError(cause);
      if (error.code === 'not_found') return void this.refresh();
      this.error = error;
    }
  }

  /** Moves a conversation with a new question to the top of the list, and saves it. */
  asked(conversation: Conversation, from: number, now: number): void {
    this.#chosen = true;
    conversation.updatedAt = now;
    const at = this.all.indexOf(conversation);
    if (at > 0) this.all.unshift(...this.all.splice(at, 1));
    this.changed(conversation, from);
  }

  /** Saves the messages from `from` on; soon: after a delay, because more changes follow. */
  changed(conversation: Conversation, from: number, soon = false): void {
    if (conversation.private) return;
    if (!this.all.includes(conversation)) return; // deleted meanwhile
    this.#unsaved.set(conversation.id, Math.min(from, this.#unsaved.get(conversation.id) ?? from));
    if (soon) this.#saveIn(conversation, saveMs + sizeOf(conversation) * saveMsPerChar);
    else void this.#save(conversation);
  }

  #saveIn(conversation: Conversation, ms: number): void {
    if (!this.#timers.has(conversation.id))
      this.#timers.set(
        conversation.id,
        setTimeout(() => void this.#save(conversation), ms),
      );
  }

  /** Writes all unsaved changes to disk now, because the page may be closed at any moment. */
  flush(): void {
    for (const one of this.all) {
      const from = this.#unsaved.get(one.id);
      if (from === undefined) continue;
      this.#unsaved.delete(one.id);
      // A running write may arrive after this one.
      const sent = this.#sent.get(one.id);
      if (sent !== undefined) this.#overtaken.add(one.id);
      const last = this.#write(
        one,
        Math.min(from, sent ?? from),
        one.revision,
        sent !== undefined,
      ).then(
        (summary) => void (one.revision = summary.revision),
        () => void this.#unsaved.set(one.id, Math.min(from, this.#unsaved.get(one.id) ?? from)),
      );
      const both = Promise.all([this.#saving.get(one.id), last]).then(() => undefined);
      this.#saving.set(one.id, both);
      const { id } = one;
      void both.then(() => this.#saved(one, id, both));
    }
  }

  #saveAll(): void {
    for (const one of this.all) if (this.#unsaved.has(one.id)) void this.#save(one);
  }

  /** Writes one at a time, because the next write names the revision of this one. */
  async #save(conversation: Conversation): Promise<void> {
    clearTimeout(this.#timers.get(conversation.id));
    this.#timers.delete(conversation.id);
    const id = conversation.id;
    const from = this.#unsaved.get(id);
    if (from === undefined || this.#saving.has(id)) return;
    this.#unsaved.delete(id);
    const write = this.#write(conversation, from, conversation.revision).then(
      (summary) => {
        conversation.revision = Math.max(conversation.revision, summary.revision);
        conversation.count = summary.messages;
        this.error = null;
      },
      (cause: unknown) => this.#notSaved(conversation, from, asHeadroomError(cause)),
    );
    this.#saving.set(id, write);
    this.#sent.set(id, from);
    await write;
    await this.#saved(conversation, id, write);
  }

  /**
   * Handles the end of a write under that ID. Later changes are written next, unless another write
   * is still running.
   */
  async #saved(conversation: Conversation, id: string, write: Promise<void>): Promise<void> {
    if (this.#saving.get(id) !== write) return;
    for (const map of [this.#saving, this.#sent, this.#overtaken]) map.delete(id);
    if (this.#unsaved.has(conversation.id) && !this.#timers.has(conversation.id))
      await this.#save(conversation);
  }

  #write(
    conversation: Conversation,
    from: number,
    revision: number,
    overtakes = false,
  ): Promise<ChatSummary> {
    const { id, title, updatedAt, messages, setup, loaded } = conversation;
    return this.#disk.write(id, {
      revision,
      title,
      updatedAt,
      from,
      messages: messages.slice(from),
      ...(loaded && { setup: setupToStore(setup) }),
      ...(overtakes && { overtakes }),
    });
  }

  #notSaved(conversation: Conversation, from: number, error: HeadroomError): void {
    if (!this.all.includes(conversation)) return; // deleted meanwhile
    // A later write of flush contains this one.
    if (error.code === 'changed' && this.#overtaken.has(conversation.id)) return;
    if (error.code === 'not_found') return this.#erased(conversation);
    if (error.code === 'changed') {
      this.#becomesACopy(conversation);
      return;
    }
    this.#unsaved.set(conversation.id, Math.min(from, this.#unsaved.get(conversation.id) ?? from));
    this.error = error;
    this.#saveIn(conversation, againMs);
  }

  /**
   * Another window has changed the conversation, or its file is damaged. This page's version gets a
   * new file, and the other file stays unchanged.
   */
  #becomesACopy(conversation: Conversation): void {
    const id = newId();
    this.#unsaved.delete(conversation.id);
    if (this.openId === conversation.id) this.openId = id;
    Object.assign(conversation, {
      id,
      revision: 0,
      count: 0,
      damage: '',
      path: '',
      title: t.copyOf(conversation.title),
    });
    this.#unsaved.set(id, 0);
    void this.refresh();
  }

  /** Everything was deleted while this page still had the conversation. */
  #erased(conversation: Conversation): void {
    clearTimeout(this.#timers.get(conversation.id));
    this.#timers.delete(conversation.id);
    this.all.splice(this.all.indexOf(conversation), 1);
    if (this.openId === conversation.id) this.show('');
  }

  rename(conversation: Conversation, title: string): void {
    if (title.trim() === '' || title === conversation.title) return;
    conversation.title = title.trim();
    this.changed(
      conversation,
      conversation.loaded ? conversation.messages.length : conversation.count,
    );
  }

  /**
   * Deletes a conversation and its file. It can be undone while the page is open, unless the file
   * was damaged.
   */
  async remove(conversation: Conversation): Promise<void> {
    conversation.run?.abort.abort();
    if (!conversation.loaded && !conversation.damage) {
      await this.read(conversation);
      if (!conversation.loaded) return;
    }
    const at = this.all.indexOf(conversation);
    if (at < 0) return;
    this.all.splice(at, 1);
    if (this.openId === conversation.id) this.show((this.all[at] ?? this.all[at - 1])?.id ?? '');
    clearTimeout(this.#timers.get(conversation.id));
    this.#timers.delete(conversation.id);
    this.#unsaved.delete(conversation.id);
    if (conversation.private) return; // it has no file, and cannot be restored
    await this.#saving.get(conversation.id); // or it would be written after it was deleted
    try {
      await this.#disk.remove(conversation.id);
      this.removed =
        conversation.damage || conversation.messages.length === 0 ? null : conversation;
    } catch (cause) {
      this.all.splice(at, 0, conversation);
      this.#failed(cause);
    }
  }

  undoRemove(): void {
    const conversation = this.removed;
    if (!conversation) return;
    this.removed = null;
    Object.assign(conversation, { revision: 0, count: 0, run: null });
    this.all.push(conversation);
    this.#order();
    this.show(conversation.id);
    this.changed(this.open!, 0);
  }

  /** Searches titles and messages, shortly after the last key. */
  search(words: string): void {
    this.words = words;
    clearTimeout(this.#searchTimer);
    if (words.trim() === '') this.found = null;
    else this.#searchTimer = setTimeout(() => void this.#search(), searchMs);
  }

  async #search(): Promise<void> {
    const words = this.words;
    try {
      const list = await this.#disk.list(words);
      if (words === this.words) this.found = new Map(list.map(({ id, excerpt }) => [id, excerpt]));
    } catch (cause) {
      this.#failed(cause);
    }
  }

  /**
   * Moves conversations that an earlier Headroom left in this browser's storage to the disk, once.
   */
  async #moveIn(): Promise<void> {
    for (const one of fromBrowser(this.#storage)) {
      if (one.messages.length === 0) continue;
      if (!validId(one.id)) one.id = newId();
      // Another page of this browser has moved it.
      if (this.all.some(({ id }) => id === one.id)) continue;
      this.all.push(one);
      this.changed(this.all.at(-1)!, 0);
    }
    await Promise.all(this.#saving.values());
    this.#order();
    if (!this.#chosen) this.openId = this.all[0]?.id ?? '';
    if (this.#unsaved.size === 0) forgetBrowserCopies(this.#storage);
  }

  #failed(cause: unknown): void {
    this.error = asHeadroomError(cause);
  }
}

const setupToStore = ({ prompt, preset, model, sampling }: Setup) => ({
  ...(prompt && { prompt }),
  ...(preset && { preset }),
  ...(model && { model }),
  ...(sampling && { sampling: { ...sampling } as Record<string, number> }),
});

/** Whether its title or messages contain all words, as the server searches. */
function holds({ title, messages }: Conversation, words: readonly string[]): boolean {
  const text = [title, ...messages.map(({ content }) => content)].join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}

const sizeOf = (conversation: Conversation) =>
  conversation.messages.reduce(
    (sum, { content, reasoning }) => sum + content.length + reasoning.length,
    0,
  );
