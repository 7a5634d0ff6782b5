// The Chat page's conversations on disk: the control API's documents, word for word (app/chats), and how they are asked for.
import type { Ask } from './transfers';

/** A conversation without what was said in it. */
export interface ChatSummary {
  id: string;
  title: string;
  updatedAt: number;
  messages: number;
  /** Counts the writes. */
  revision: number;
  /** What is wrong with the file, which is never written over; empty: nothing. */
  damage: string;
  path: string;
  /** Where what was looked for stands; empty where nothing was, or the title has it. */
  excerpt: string;
}

/** Messages are as anything may have written them: conversations.ts looks at each. */
export interface StoredChat {
  summary: ChatSummary;
  messages: unknown[];
}

/** Replaces a conversation's messages from one on. */
export interface ChatChange {
  /** That it builds on; 0: the conversation is new. Refused with the code "changed" if it is another one by now. */
  revision: number;
  title: string;
  updatedAt: number;
  /** So many messages stay. */
  from: number;
  messages: readonly unknown[];
  /** Another write of this page's that builds on the same revision may arrive before this one or after it; this one has all that it has. */
  overtakes?: boolean;
}

export interface ChatsBackend {
  /** Those changed last first; of a search, those that have all its words. */
  list(search: string): Promise<ChatSummary[]>;
  read(id: string): Promise<StoredChat>;
  /** Arrives although the page closes, if the browser can do that. */
  write(id: string, change: ChatChange): Promise<ChatSummary>;
  remove(id: string): Promise<void>;
}

export class HttpChats implements ChatsBackend {
  readonly #ask: Ask;
  readonly #askLasting: Ask;

  /** askLasting: what it sends arrives although the page closes. */
  constructor(ask: Ask, askLasting: Ask) {
    this.#ask = ask;
    this.#askLasting = askLasting;
  }

  async list(search: string): Promise<ChatSummary[]> {
    const answer = await this.#ask(
      'GET',
      search ? `api/chats?search=${encodeURIComponent(search)}` : 'api/chats',
    );
    return ((await answer.json()) as { chats: ChatSummary[] | null }).chats ?? [];
  }

  async read(id: string): Promise<StoredChat> {
    const chat = (await (await this.#ask('GET', address(id))).json()) as StoredChat;
    return { ...chat, messages: chat.messages ?? [] };
  }

  async write(id: string, change: ChatChange): Promise<ChatSummary> {
    return (await (await this.#askLasting('PUT', address(id), change)).json()) as ChatSummary;
  }

  async remove(id: string): Promise<void> {
    await this.#ask('DELETE', address(id));
  }
}

const address = (id: string) => `api/chats/${encodeURIComponent(id)}`;
