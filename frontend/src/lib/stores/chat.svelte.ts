// The Chat page's questions and running answers. conversations.svelte.ts stores the messages.
//
// The store outlives the page's components, so an answer continues while another page is shown.
// Text arrives faster than a screen can show it. It is written to the message at most once per
// `flushMs`, and less often as it grows, because each write renders the whole message.
import { asHeadroomError, type Backend } from '../backend/backend';
import type { ChatMessage } from '../backend/types';
import { withAttachments } from '../attachments';
import { presetsFrom, withPreset, type Preset } from '../presets';
import { samplingFrom, type Sampling } from '../sampling';
import { Answer } from './answer';
import {
  newMessage,
  newSetup,
  titleOf,
  type Attachment,
  type Conversation,
  type Message,
  type Run,
  type Setup,
} from './conversations';
import { Conversations } from './conversations.svelte';
import { beginVersion, showVersion } from './versions';

const flushMs = 40;
const flushMsPerChar = 1 / 400;
/** A page that is still open this long after beforeunload or pagehide is not closing. */
const leavingMs = 3000;
const thinkingKey = 'headroom.thinking';
const samplingKey = 'headroom.sampling';
const toolsKey = 'headroom.tools';
const presetsKey = 'headroom.presets';

export class ChatStore {
  readonly conversations: Conversations;
  /** Ask the model to reason before it answers. */
  thinking = $state(false);
  /** Sampling values of chats without their own. A missing value means the model's setting. */
  #sampling = $state.raw<Sampling>({});
  presets = $state.raw<Preset[]>([]);
  /** The setup of a new conversation. It joins the first message. */
  #nextSetup = $state.raw<Setup>(newSetup());
  /** The functions that the model may call. Calls are shown, never executed. */
  tools = $state.raw<unknown[]>([]);
  /** The next new conversation is private. */
  #nextIsPrivate = $state(false);
  /** The unsent question of each chat. Closing the page loses them. */
  readonly drafts = new Map<string, { text: string; attachments: Attachment[] }>();
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
    this.#sampling = samplingFrom(readJson(storage.getItem(samplingKey)));
    this.presets = presetsFrom(readJson(storage.getItem(presetsKey)));
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

  /** What the thread shown is answered with, the empty one included. */
  get setup(): Setup {
    return this.open?.setup ?? this.#nextSetup;
  }

  /** The sampling values of the thread shown. */
  get sampling(): Sampling {
    return this.setup.sampling ?? this.#sampling;
  }

  /** Changes the sampling of chats without their own, or that of a preset's chat. */
  setSampling(sampling: Sampling): void {
    if (this.setup.sampling) return this.changeSetup({ sampling });
    this.#sampling = sampling;
    this.#remember(samplingKey, JSON.stringify(sampling));
  }

  changeSetup(change: Partial<Setup>): void {
    const setup = { ...this.setup, ...change };
    const conversation = this.open;
    if (!conversation) this.#nextSetup = setup;
    else if (conversation.loaded) {
      conversation.setup = setup;
      this.conversations.changed(conversation, conversation.messages.length);
    }
  }

  /** An empty name: no preset, no system prompt. */
  usePreset(name: string): void {
    const preset = this.presets.find((one) => one.name === name);
    if (preset)
      this.changeSetup({ preset: name, prompt: preset.prompt, sampling: preset.sampling });
    else this.changeSetup({ preset: '', prompt: '', sampling: null });
  }

  /** Saves the setup of the thread shown, which uses that preset from then on. */
  savePreset(name: string): void {
    const { prompt } = this.setup;
    this.#setPresets(withPreset(this.presets, { name, prompt, sampling: this.sampling }));
    this.usePreset(name);
  }

  removePreset(name: string): void {
    this.#setPresets(this.presets.filter((one) => one.name !== name));
    if (this.setup.preset === name) this.changeSetup({ preset: '' });
  }

  #setPresets(presets: Preset[]): void {
    this.presets = presets;
    this.#write(presetsKey, JSON.stringify(presets));
  }

  setTools(tools: unknown[]): void {
    this.tools = tools;
    this.#remember(toolsKey, JSON.stringify(tools));
  }

  #remember(key: string, text: string): void {
    if (!this.private) this.#write(key, text); // it lasts until the page closes
  }

  #write(key: string, text: string): void {
    try {
      this.#storage.setItem(key, text);
    } catch {
      // Without storage the choice lasts until the page closes.
    }
  }

  /** Shows an empty thread; it joins the list with its first message. */
  startNew(isPrivate = false): void {
    this.#nextIsPrivate = isPrivate;
    this.#nextSetup = { ...newSetup(), model: this.setup.model };
    this.conversations.show('');
  }

  /** Resolves when the answer has ended, however it ended. */
  async send(text: string, model: string, attachments: Attachment[] = []): Promise<void> {
    if ((text.trim() === '' && attachments.length === 0) || this.run) return;
    const conversation = this.open ?? this.#begin(this.private, this.#nextSetup);
    if (!conversation.loaded) return;
    conversation.title ||= titleOf(text) || titleOf(attachments[0]?.name ?? '');
    conversation.messages.push({ ...newMessage('user', text), attachments });
    await this.#answer(conversation, model, conversation.messages.length - 1);
  }

  #begin(isPrivate: boolean, setup: Setup): Conversation {
    const conversation = this.conversations.begin(Date.now(), isPrivate, setup);
    this.#nextSetup = { ...newSetup(), model: setup.model };
    return conversation;
  }

  /** Asks again. The answer and all later messages become another version. */
  async retry(messageId: string, model: string): Promise<void> {
    const conversation = this.open;
    if (!conversation || this.run) return;
    const at = conversation.messages.findIndex((message) => message.id === messageId);
    if (at < 1) return;
    await this.#answer(conversation, model, at);
  }

  /** Asks another question. The one before and all later messages become another version. */
  async edit(messageId: string, text: string, model: string): Promise<void> {
    const conversation = this.open;
    if (!conversation || this.run || text.trim() === '') return;
    const at = conversation.messages.findIndex(
      (message) => message.id === messageId && message.role === 'user',
    );
    if (at < 0) return;
    const { attachments } = conversation.messages[at]!;
    if (at === 0) conversation.title = titleOf(text);
    beginVersion(conversation.messages, at, { ...newMessage('user', text), attachments });
    await this.#answer(conversation, model, at);
  }

  /** Shows another version from a message on. */
  showVersion(messageId: string, version: number): void {
    const conversation = this.open;
    const at = conversation?.messages.findIndex((message) => message.id === messageId) ?? -1;
    if (!conversation || this.run || at < 0) return;
    if (version < 0 || version > conversation.messages[at]!.others.length) return;
    showVersion(conversation.messages, at, version);
    this.conversations.changed(conversation, at);
  }

  /** Continues from a message in a new conversation; this one stays unchanged. */
  branch(messageId: string): void {
    const from = this.open;
    const at = from?.messages.findIndex((message) => message.id === messageId) ?? -1;
    if (!from || at < 0) return;
    const messages = $state.snapshot(from.messages.slice(0, at + 1));
    const conversation = this.#begin(from.private, $state.snapshot(from.setup));
    conversation.title = `${from.title} (branch)`;
    conversation.messages.push(...messages);
    this.conversations.changed(conversation, 0);
  }

  stop(): void {
    this.run?.abort.abort();
  }

  /**
   * from: the first message that is new. An answer that is there already becomes another version.
   */
  async #answer(conversation: Conversation, model: string, from: number): Promise<void> {
    const { messages } = conversation;
    const at = messages[from]!.role === 'assistant' ? from : messages.length;
    const request = {
      model,
      messages: history(messages.slice(0, at), conversation.setup.prompt),
      thinking: this.thinking,
      sampling: this.sampling,
      tools: this.tools,
      ...(conversation.private && { private: true }),
    };
    const empty = newMessage('assistant', '', model);
    if (at === messages.length) messages.push(empty);
    else beginVersion(messages, at, empty);
    const message = messages.at(-1)!;
    const answer = new Answer(performance.now());
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
function history(messages: readonly Message[], prompt: string): ChatMessage[] {
  const system: ChatMessage[] = prompt.trim() ? [{ role: 'system', content: prompt }] : [];
  const said = messages
    .filter((message) => message.role === 'user' || message.content !== '')
    .map(({ role, content, attachments }) => ({
      role,
      content: withAttachments(content, attachments),
    }));
  return [...system, ...said];
}

function readJson(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}
