// The chat page's memory: conversations, which one is open, and the answers on their way.
//
// It outlives the page's components, so an answer goes on while another page is shown.
// Text arrives faster than a screen can show it and is written to the message at most
// once per `flushMs`, more rarely as it grows, because each time all of it is rendered;
// storage is written at most once per `saveMs`.
import { asHeadroomError, type Backend } from '../backend/backend';
import type { ChatMessage } from '../backend/types';
import { samplingFrom, type Sampling } from '../sampling';
import { Answer } from './answer';
import {
  loadConversations,
  newConversation,
  newMessage,
  saveConversations,
  titleOf,
  type Conversation,
  type Message,
} from './conversations';

const flushMs = 40;
const flushMsPerChar = 1 / 400;
const saveMs = 1000;
const thinkingKey = 'headroom.thinking';
const samplingKey = 'headroom.sampling';
const toolsKey = 'headroom.tools';

/** An answer being written. */
export interface Run {
  phase: Answer['phase'];
  prefill: Answer['prefill'];
}

export class ChatStore {
  conversations = $state<Conversation[]>([]);
  openId = $state('');
  /** Ask the model to reason before it answers. */
  thinking = $state(false);
  /** How tokens are chosen for what this window asks; what is missing is as the model's settings say. */
  sampling = $state.raw<Sampling>({});
  /** Functions that the model is told of; its calls are shown, not made. */
  tools = $state.raw<unknown[]>([]);
  /** By conversation: at most one answer at a time in each. */
  runs = $state<Record<string, Run>>({});
  /** False when this browser has no room left for conversations. */
  stored = $state(true);
  #aborts = new Map<string, AbortController>();
  #backend: Backend;
  #storage: Storage;
  #saveTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(backend: Backend, storage: Storage) {
    this.#backend = backend;
    this.#storage = storage;
    this.conversations = loadConversations(storage);
    this.openId = this.conversations[0]?.id ?? '';
    this.thinking = storage.getItem(thinkingKey) === 'true';
    this.sampling = samplingFrom(readJson(storage.getItem(samplingKey)));
    const tools = readJson(storage.getItem(toolsKey));
    if (Array.isArray(tools)) this.tools = tools;
    window.addEventListener('pagehide', () => this.#saveNow());
  }

  get open(): Conversation | null {
    return this.conversations.find((conversation) => conversation.id === this.openId) ?? null;
  }

  get run(): Run | null {
    return this.runs[this.openId] ?? null;
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
    try {
      this.#storage.setItem(key, text);
    } catch {
      // Full or off: the choice lasts as long as the page.
    }
  }

  /** Shows an empty thread; it joins the list with its first message. */
  startNew(): void {
    this.openId = '';
  }

  remove(id: string): void {
    this.stop(id);
    const at = this.conversations.findIndex((conversation) => conversation.id === id);
    if (at < 0) return;
    this.conversations.splice(at, 1);
    if (this.openId === id) this.openId = (this.conversations[at] ?? this.conversations[at - 1])?.id ?? '';
    this.#saveNow();
  }

  /** Resolves when the answer has ended, however it ended. */
  async send(text: string, model: string): Promise<void> {
    if (text.trim() === '' || this.run) return;
    let conversation = this.open;
    if (!conversation) {
      this.conversations.unshift(newConversation(Date.now()));
      conversation = this.conversations[0]!;
      this.openId = conversation.id;
    }
    conversation.title ||= titleOf(text);
    conversation.messages.push(newMessage('user', text));
    await this.#answer(conversation, model);
  }

  /** Drops the answer and all that follows it, and asks again. */
  async retry(messageId: string, model: string): Promise<void> {
    const conversation = this.open;
    if (!conversation || this.run) return;
    const at = conversation.messages.findIndex((message) => message.id === messageId);
    if (at < 1) return;
    conversation.messages.splice(at);
    await this.#answer(conversation, model);
  }

  /** Asks something else in the place of a question; what followed it is dropped. */
  async edit(messageId: string, text: string, model: string): Promise<void> {
    const conversation = this.open;
    if (!conversation || this.run || text.trim() === '') return;
    const at = conversation.messages.findIndex((message) => message.id === messageId && message.role === 'user');
    if (at < 0) return;
    conversation.messages.splice(at);
    if (at === 0) conversation.title = titleOf(text);
    conversation.messages.push(newMessage('user', text));
    await this.#answer(conversation, model);
  }

  stop(id = this.openId): void {
    this.#aborts.get(id)?.abort();
  }

  async #answer(conversation: Conversation, model: string): Promise<void> {
    const request = { model, messages: history(conversation.messages), thinking: this.thinking, sampling: this.sampling, tools: this.tools };
    conversation.messages.push(newMessage('assistant', '', model));
    const message = conversation.messages.at(-1)!;
    const answer = new Answer(performance.now());
    const abort = new AbortController();
    this.#aborts.set(conversation.id, abort);
    this.runs[conversation.id] = { phase: 'waiting', prefill: null };
    this.#moveToTop(conversation.id);

    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      timer = undefined;
      this.runs[conversation.id] = { phase: answer.phase, prefill: answer.prefill };
      copyInto(message, answer);
      this.#saveSoon();
    };
    try {
      for await (const event of this.#backend.chat(request, abort.signal)) {
        answer.take(event, performance.now());
        timer ??= setTimeout(show, flushMs + answer.content.length * flushMsPerChar);
      }
      message.end = abort.signal.aborted ? 'stopped' : answer.finishReason === 'length' ? 'length' : 'stop';
    } catch (cause) {
      const { code, message: what, why, fix } = asHeadroomError(cause);
      // Cancelled on Overview or elsewhere: somebody meant it.
      if (code !== 'cancelled') message.error = { code, message: what, why, fix };
      message.end = message.error ? 'error' : 'stopped';
    } finally {
      clearTimeout(timer);
      copyInto(message, answer);
      message.stats = answer.stats;
      conversation.updatedAt = Date.now();
      this.#aborts.delete(conversation.id);
      delete this.runs[conversation.id];
      this.#saveNow();
    }
  }

  #moveToTop(id: string): void {
    const at = this.conversations.findIndex((conversation) => conversation.id === id);
    if (at > 0) this.conversations.unshift(...this.conversations.splice(at, 1));
  }

  #saveSoon(): void {
    this.#saveTimer ??= setTimeout(() => this.#saveNow(), saveMs);
  }

  #saveNow(): void {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = undefined;
    this.stored = saveConversations(this.#storage, this.conversations);
  }
}

function copyInto(message: Message, answer: Answer): void {
  message.content = answer.content;
  message.reasoning = answer.reasoning;
  message.calls = answer.calls;
  message.reasoningTokens = answer.reasoningTokens;
  message.reasoningSeconds = answer.reasoningSeconds;
}

/** What the model is told: said text only, never reasoning, nor answers that failed before a word. */
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
