// The Chat page's conversations on disk, and the requests for them.
import { filled } from './fill';
import type * as schema from './schema';
import type { Send } from './transfers';

/** A conversation without its messages. */
export type ChatSummary = schema.ChatsSummary;

/**
 * A conversation with its messages. conversations.ts checks the messages, because any program may
 * have written them.
 */
export interface StoredChat {
  summary: ChatSummary;
  messages: unknown[];
  setup?: unknown;
}

/** Replaces a conversation's messages from index `from` on. */
export interface ChatChange extends Required<
  Omit<schema.ChatsChange, 'messages' | 'overtakes' | 'setup'>
> {
  messages: readonly unknown[];
  /** Left out: it stays as it is. */
  setup?: schema.ChatsSetup;
  /**
   * Set when an earlier write of this page with the same revision is still running. It may arrive
   * before or after this write, which contains all of its messages.
   */
  overtakes?: boolean;
}

export interface ChatsBackend {
  /** Lists the conversations that contain all words of the search, last changed first. */
  list(search: string): Promise<ChatSummary[]>;
  read(id: string): Promise<StoredChat>;
  /** Saves a change. If the browser supports keepalive requests, this works in a closing page. */
  write(id: string, change: ChatChange): Promise<ChatSummary>;
  remove(id: string): Promise<void>;
}

export class HttpChats implements ChatsBackend {
  readonly #send: Send;
  readonly #sendKeepalive: Send;

  /** A request sent with sendKeepalive outlives the page. */
  constructor(send: Send, sendKeepalive: Send) {
    this.#send = send;
    this.#sendKeepalive = sendKeepalive;
  }

  async list(search: string): Promise<ChatSummary[]> {
    const answer = await this.#send(
      'GET',
      search ? `control/chats?search=${encodeURIComponent(search)}` : 'control/chats',
    );
    return filled('ChatList', await answer.json()).chats;
  }

  async read(id: string): Promise<StoredChat> {
    return filled('ChatsChat', await (await this.#send('GET', address(id))).json());
  }

  async write(id: string, change: ChatChange): Promise<ChatSummary> {
    return (await (await this.#sendKeepalive('PUT', address(id), change)).json()) as ChatSummary;
  }

  async remove(id: string): Promise<void> {
    await this.#send('DELETE', address(id));
  }
}

const address = (id: string) => `control/chats/${encodeURIComponent(id)}`;
