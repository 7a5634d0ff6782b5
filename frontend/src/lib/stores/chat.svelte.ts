// The Chat page's questions and running answers. conversations.svelte.ts stores the messages.
//
// The store outlives the page's components, so an answer continues while another page is shown.
// Text arrives faster than a screen can show it. It is written to the message at most once per
// `flushMs`, and less often as it grows, because each write renders the whole message.
import { asHeadroomError, type Backend } from '../backend/backend';
import type { ChatMessage } from '../backend/types';
import { samplingFrom, type Sampling } from '../sampling';
import { Answer } from './answer';
import { newMessage, titleOf, type Conversation, type Message, type Run } from './conversations';
import { Conversations } from './conversations.svelte';

const flushMs = 40;
const flushMsPerChar = 1 / 400;
/** A page that is still open this long after beforeunload or pagehide is not closing. */
const leavingMs = 3000;
const thinkingKey = 'headroom.thinking';
const samplingKey = 'headroom.sampling';
const toolsKey = 'headroom.tools';

export class ChatStore {
  readonly conversations: Conversations;
  /** Ask the model to reason before it answers. */
  thinking = $state(false);
  /** Sampling values for this window's questions. A missing value means the model's setting. */
  sampling = $state.raw<Sampling>({});
  /** The functions that the model may call. Calls are shown, never executed. */
  tools = $state.raw<unknown[]>([]);
  /** The next new conversation is private. */
  #nextIsPrivate = $state(false);
  /** The page is closing: an answer that ends now has not failed. */
  #leaving = false;
  #backend: Backend;
  #storage: Storage;

  constructor(backend: Backend, storage: Storage) {
    this.#backend = backend;
    this.#storage = storage;
    this.conversations = new Conversations(backend.chats, storage);
    const leave = () => {
      this.#leaving = true;
      setTimeout(() => (this.#leaving = false), leavingMs);
    };
    for (const event of ['beforeunload', 'pagehide']) window.addEventListener(event, leave);
    window.addEventListener('beforeunload', (event) => {
      if (this.conversations.losesPrivate) event.preventDefault(); // the browser asks
    });
    this.thinking = storage.getItem(thinkingKey) === 'true';
    this.sampling = samplingFrom(readJson(storage.getItem(samplingKey)));
    const tools = readJson(storage.getItem(toolsKey));
    if (Array.isArray(tools)) this.tools = tools;
  }

  get open(): Conversation | null {
    return this.conversations.open;
  }

  /** Whether the thread shown is private, the empty one included. */
  get private(): boolean {
    return this.open?.private ?? this.#nextIsPrivate;
  }

  get run(): Run | null {
    return this.open?.run ?? null;
  }

  setThinking(on: boolean): void {
    this.thinking = on;
    this.#remember(thinkingKey, String(on));
  }

  setSampling(sampling: Sampling): void {
    this.sampling = sampling;
    this.#remember(samplingKey, JSON.stringify(sampling));
  }

  setTools(tools: unknown[]): void {
    this.tools = tools;
    this.#remember(toolsKey, JSON.stringify(tools));
  }

  #remember(key: string, text: string): void {
    if (this.private) return; // it lasts until the page closes
    try {
      this.#storage.setItem(key, text);
    } catch {
      // Without storage the choice lasts until the page closes.
    }
  }

  /** Shows an empty thread; it joins the list with its first message. */
  startNew(isPrivate = false): void {
    this.#nextIsPrivate = isPrivate;
    this.conversations.show('');
  }

  /** Resolves when the answer has ended, however it ended. */
  async send(text: string, model: string): Promise<void> {
    if (text.trim() === '' || this.run) return;
    const conversation = this.open ?? this.conversations.begin(Date.now(), this.private);
    if (!conversation.loaded) return;
    conversation.title ||= titleOf(text);
    conversation.messages.push(newMessage('user', text));
    await this.#answer(conversation, model, conversation.messages.length - 1);
  }

  /** Removes the answer and all later messages, and asks again. */
  async retry(messageId: string, model: string): Promise<void> {
    const conversation = this.open;
    if (!conversation || this.run) return;
    const at = conversation.messages.findIndex((message) => message.id === messageId);
    if (at < 1) return;
    conversation.messages.splice(at);
    await this.#answer(conversation, model, at);
  }

  /** Replaces a question and removes all later messages. */
  async edit(messageId: string, text: string, model: string): Promise<void> {
    const conversation = this.open;
    if (!conversation || this.run || text.trim() === '') return;
    const at = conversation.messages.findIndex(
      (message) => message.id === messageId && message.role === 'user',
    );
    if (at < 0) return;
    conversation.messages.splice(at);
    if (at === 0) conversation.title = titleOf(text);
    conversation.messages.push(newMessage('user', text));
    await this.#answer(conversation, model, at);
  }

  /** Continues from a message in a new conversation; this one stays unchanged. */
  branch(messageId: string): void {
    const from = this.open;
    const at = from?.messages.findIndex((message) => message.id === messageId) ?? -1;
    if (!from || at < 0) return;
    const messages = $state.snapshot(from.messages.slice(0, at + 1));
    const conversation = this.conversations.begin(Date.now(), from.private);
    conversation.title = `${from.title} (branch)`;
    conversation.messages.push(...messages);
    this.conversations.changed(conversation, 0);
  }

  stop(): void {
    this.run?.abort.abort();
  }

  /** from: the first message that is new. */
  async #answer(conversation: Conversation, model: string, from: number): Promise<void> {
    const request = {
      model,
      messages: history(conversation.messages),
      thinking: this.thinking,
      sampling: this.sampling,
      tools: this.tools,
      ...(conversation.private && { private: true }),
    };
    conversation.messages.push(newMessage('assistant', '', model));
    const message = conversation.messages.at(-1)!;
    const answer = new Answer(performance.now());
    const at = conversation.messages.length - 1;
    const abort = new AbortController();
    conversation.run = { phase: 'waiting', prefill: null, abort };
    this.conversations.asked(conversation, from, Date.now());

    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      timer = undefined;
      const run: Run = { phase: answer.phase, prefill: answer.prefill, abort };
      conversation.run = run;
      copyInto(message, answer);
      this.conversations.changed(conversation, at, true);
    };
    try {
      for await (const event of this.#backend.chat(request, abort.signal)) {
        answer.take(event, performance.now());
        timer ??= setTimeout(show, flushMs + answer.content.length * flushMsPerChar);
      }
      message.end = abort.signal.aborted
        ? 'stopped'
        : answer.finishReason === 'length'
          ? 'length'
          : 'stop';
    } catch (cause) {
      const { code, message: what, why, fix } = asHeadroomError(cause);
      // Cancelled on the Overview page or by another client.
      if (code !== 'cancelled' && !this.#leaving) message.error = { code, message: what, why, fix };
      message.end = message.error ? 'error' : 'stopped';
    } finally {
      clearTimeout(timer);
      copyInto(message, answer);
      message.stats = answer.stats;
      conversation.updatedAt = Date.now();
      conversation.run = null;
      this.conversations.changed(conversation, at);
    }
  }
}

function copyInto(message: Message, answer: Answer): void {
  message.content = answer.content;
  message.reasoning = answer.reasoning;
  message.calls = answer.calls;
  message.reasoningTokens = answer.reasoningTokens;
  message.reasoningSeconds = answer.reasoningSeconds;
}

/**
 * The messages sent to the model. Reasoning is left out, and so are answers that failed before
 * their first word.
 */
function history(messages: readonly Message[]): ChatMessage[] {
  return messages
    .filter((message) => message.role === 'user' || message.content !== '')
    .map(({ role, content }) => ({ role, content }));
}

function readJson(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
