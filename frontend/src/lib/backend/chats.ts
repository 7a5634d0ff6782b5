// The Chat page's conversations on disk, and the requests for them.
import { filled } from './fill';
import type * as schema from './schema';
import type { Ask } from './transfers';

/** A conversation without its messages. */
export type ChatSummary = schema.ChatsSummary;

/** A conversation with its messages. Any program may have written them: conversations.ts checks. */
export interface StoredChat {
  summary: ChatSummary;
  messages: unknown[];
}

/** Replaces a conversation's messages from index `from` on. */
export interface ChatChange extends Required<Omit<schema.ChatsChange, 'messages' | 'overtakes'>> {
  messages: readonly unknown[];
  /**
   * Set when another write of this page that builds on the same revision may arrive before or after
   * this one, which contains all of it.
   */
  overtakes?: boolean;
}

export interface ChatsBackend {
  /** Lists the chats, last changed first; a search lists those that contain all its words. */
  list(search: string): Promise<ChatSummary[]>;
  read(id: string): Promise<StoredChat>;
  /** Saves the change, also while the page closes, where the browser can do that. */
  write(id: string, change: ChatChange): Promise<ChatSummary>;
  remove(id: string): Promise<void>;
}

export class HttpChats implements ChatsBackend {
  readonly #ask: Ask;
  readonly #askLasting: Ask;

  /** A request sent with askLasting outlives the page. */
  constructor(ask: Ask, askLasting: Ask) {
    this.#ask = ask;
    this.#askLasting = askLasting;
  }

  async list(search: string): Promise<ChatSummary[]> {
    const answer = await this.#ask(
      'GET',
      search ? `api/chats?search=${encodeURIComponent(search)}` : 'api/chats',
    );
    return filled('ChatList', await answer.json()).chats;
  }

  async read(id: string): Promise<StoredChat> {
    return filled('ChatsChat', await (await this.#ask('GET', address(id))).json());
  }

  async write(id: string, change: ChatChange): Promise<ChatSummary> {
    return (await (await this.#askLasting('PUT', address(id), change)).json()) as ChatSummary;
  }

  async remove(id: string): Promise<void> {
    await this.#ask('DELETE', address(id));
  }
}

const address = (id: string) => `api/chats/${encodeURIComponent(id)}`;
