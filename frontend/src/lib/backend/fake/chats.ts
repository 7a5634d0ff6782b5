// The conversations of the fake Chat page. They follow the rules of app/chats, in memory.
import type { HeadroomError } from '../backend';
import type { ChatChange, ChatSummary, ChatsBackend, StoredChat } from '../chats';
import { refusal } from './refusal';

export class FakeChats implements ChatsBackend {
  /** What is kept, by ID. */
  readonly kept = new Map<string, StoredChat>();
  readonly writes: { id: string; change: ChatChange }[] = [];
  /** Thrown by every call while it is set. */
  refuses: HeadroomError | null = null;
  #version = 0;
  readonly #tell: (version: number) => void;

  constructor(tell: (version: number) => void) {
    this.#tell = tell;
  }

  get version(): number {
    return this.#version;
  }

  async list(search: string): Promise<ChatSummary[]> {
    this.#look();
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    return [...this.kept.values()]
      .filter((chat) => holds(textOf(chat), words))
      .map((chat) => ({ ...chat.summary, excerpt: excerptOf(chat, words) }))
      .sort((a, b) => b.updatedAt - a.updatedAt);
  }

  async read(id: string): Promise<StoredChat> {
    this.#look();
    const found = this.kept.get(id);
    if (!found) throw refusal('not_found', 'This conversation no longer exists');
    return structuredClone(found);
  }

  async write(id: string, sent: ChatChange): Promise<ChatSummary> {
    const change = JSON.parse(JSON.stringify(sent)) as ChatChange;
    this.#look();
    const before = this.kept.get(id);
    const here = before?.summary.revision ?? 0;
    const expected = here === change.revision || (change.overtakes && here === change.revision + 1);
    if (!expected || before?.summary.damage || change.from > (before?.messages.length ?? 0))
      throw refusal('changed', 'This conversation was changed elsewhere');
    this.writes.push({ id, change });
    const summary = this.put(id, change.title, change.updatedAt, [
      ...(before?.messages.slice(0, change.from) ?? []),
      ...change.messages,
    ]);
    summary.revision = change.revision + (change.overtakes ? 2 : 1);
    const setup = change.setup ?? before?.setup;
    if (setup) this.kept.get(id)!.setup = setup;
    return summary;
  }

  async remove(id: string): Promise<void> {
    this.#look();
    this.kept.delete(id);
    this.#changed();
  }

  /** Stores a conversation, as another page would. */
  put(id: string, title: string, updatedAt: number, messages: unknown[], damage = ''): ChatSummary {
    const revision = (this.kept.get(id)?.summary.revision ?? 0) + 1;
    const summary = {
      id,
      title,
      updatedAt,
      messages: messages.length,
      revision,
      damage,
      path: `/home/you/.local/share/headroom/chats/${id}.chat`,
      excerpt: '',
    };
    this.kept.set(id, { summary, messages });
    this.#changed();
    return summary;
  }

  #changed(): void {
    this.#tell(++this.#version);
  }

  #look(): void {
    if (this.refuses) throw this.refuses;
  }
}

function textOf({ summary, messages }: StoredChat): string {
  return [summary.title, ...contentsOf(messages)].join(' ');
}

/** The first message with one of the words; empty when the title holds them all. */
function excerptOf({ summary, messages }: StoredChat, words: string[]): string {
  if (holds(summary.title, words)) return '';
  const found = contentsOf(messages).find((content) =>
    words.some((word) => holds(content, [word])),
  );
  return found?.slice(0, 80) ?? '';
}

function contentsOf(messages: readonly unknown[]): string[] {
  return (messages as { content: string }[]).map(({ content }) => content);
}

function holds(text: string, words: string[]): boolean {
  return words.every((word) => text.toLowerCase().includes(word));
}
