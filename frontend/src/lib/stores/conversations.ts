// Conversations: their types, and how they are parsed.
//
// They are stored on disk (conversations.svelte.ts). Those of earlier versions stay in the
// browser's localStorage, under one key, until they have been moved to the disk. Every field is
// checked when it is read, because any program may have written it. Invalid fields are left out and
// never stop the page.
import type { ChatSummary } from '../backend/chats';
import type { ApiError } from '../backend/types';
import { plainLine } from '../markdown';
import { samplingFrom, type Sampling } from '../sampling';
import type { Answer } from './answer';

export interface AnswerStats {
  promptTokens: number;
  cachedTokens: number;
  answerTokens: number;
  /** The tokens that were proposed ahead, and how many of them the model chose, too. */
  draftTokens: number;
  acceptedTokens: number;
  /** The parts of the answer's text that were accepted drafts, from and to, in order. */
  acceptedText: [from: number, to: number][];
  /** True when the tokens were counted by their arrival, because no usage came. */
  estimated: boolean;
  tokensPerSecond: number;
  firstTokenSeconds: number;
}

/** A function that the model calls. It is shown, never executed. */
export interface ToolCall {
  name: string;
  /** JSON, as the model wrote it. */
  arguments: string;
}

/** A file that was added to a question, as text. */
export interface Attachment {
  name: string;
  text: string;
  /** Of a PDF; 0 for others. */
  pages: number;
}

/** What a conversation is answered with. Empty values are the defaults. */
export interface Setup {
  /** The system prompt. */
  prompt: string;
  /** The name of the preset that the setup comes from. */
  preset: string;
  /** The model that was picked; empty: the one in front. */
  model: string;
  /** null: this window's sampling. */
  sampling: Sampling | null;
}

export interface Message {
  id: string;
  role: 'user' | 'assistant';
  content: string;
  reasoning: string;
  calls: ToolCall[];
  /** Tokens of reasoning, and how long it took. */
  reasoningTokens: number;
  reasoningSeconds: number;
  model: string;
  /** How an answer ended; '' for the user's messages and while it is being written. */
  end: '' | 'stop' | 'length' | 'stopped' | 'error';
  error: ApiError | null;
  stats: AnswerStats | null;
  attachments: Attachment[];
  /**
   * The other versions of the conversation from this message on: before a question was edited, or
   * with another answer.
   */
  others: Message[][];
  /** The place of the version shown among all of them. */
  version: number;
}

/** An answer being written. */
export interface Run {
  phase: Answer['phase'];
  prefill: Answer['prefill'];
  abort: AbortController;
}

export interface Conversation {
  id: string;
  title: string;
  updatedAt: number;
  /** The revision of the file that this conversation is based on; 0: no file yet. */
  revision: number;
  /** Messages in the file. */
  count: number;
  /** How the file is damaged; empty: not damaged. */
  damage: string;
  path: string;
  /** The messages were loaded. */
  loaded: boolean;
  messages: Message[];
  setup: Setup;
  /** It is only in this page's memory: never written, and gone when the page closes. */
  private: boolean;
  /** The running answer; a conversation has at most one. */
  run: Run | null;
}

export const storageKey = 'headroom.conversations';
const titleChars = 60;

export function newMessage(role: Message['role'], content: string, model = ''): Message {
  return {
    id: newId(),
    role,
    content,
    reasoning: '',
    calls: [],
    reasoningTokens: 0,
    reasoningSeconds: 0,
    model,
    end: '',
    error: null,
    stats: null,
    attachments: [],
    others: [],
    version: 0,
  };
}

export const newSetup = (): Setup => ({ prompt: '', preset: '', model: '', sampling: null });

export function newConversation(now: number, isPrivate = false): Conversation {
  return {
    id: newId(),
    title: '',
    updatedAt: now,
    revision: 0,
    count: 0,
    damage: '',
    path: '',
    loaded: true,
    messages: [],
    setup: newSetup(),
    private: isPrivate,
    run: null,
  };
}

/** A conversation of the list, without its messages. */
export function conversationFrom({
  id,
  title,
  updatedAt,
  revision,
  messages,
  damage,
  path,
}: ChatSummary): Conversation {
  return {
    id,
    title,
    updatedAt,
    revision,
    count: messages,
    damage,
    path,
    loaded: false,
    messages: [],
    setup: newSetup(),
    private: false,
    run: null,
  };
}

/** Versions within versions that are read; a person makes few. */
const deepest = 100;

export const messagesFrom = (raw: readonly unknown[], depth = 0): Message[] =>
  depth > deepest ? [] : raw.flatMap((message) => messageFrom(message, depth) ?? []);

export function setupFrom(raw: unknown): Setup {
  const setup = newSetup();
  if (!isRecord(raw)) return setup;
  for (const key of ['prompt', 'preset', 'model'] as const)
    if (typeof raw[key] === 'string') setup[key] = raw[key];
  if (isRecord(raw.sampling)) setup.sampling = samplingFrom(raw.sampling);
  return setup;
}

/** The beginning of the first message in one line without Markdown, cut at a word. */
export function titleOf(text: string): string {
  const line = plainLine(text.slice(0, 1000));
  if (line.length <= titleChars) return line;
  const cut = line.slice(0, titleChars);
  return `${cut.replace(/\s+\S*$/, '') || cut}…`;
}

/** The conversations that an earlier version stored in this browser. */
export function fromBrowser(storage: Storage): Conversation[] {
  let raw: unknown;
  try {
    raw = JSON.parse(storage.getItem(storageKey) ?? '[]');
  } catch {
    return [];
  }
  return Array.isArray(raw) ? raw.flatMap((item) => oneFromBrowser(item) ?? []) : [];
}

export function forgetBrowserCopies(storage: Storage): void {
  storage.removeItem(storageKey);
}

function oneFromBrowser(raw: unknown): Conversation | null {
  if (!isRecord(raw) || typeof raw.id !== 'string' || !Array.isArray(raw.messages)) return null;
  const messages = messagesFrom(raw.messages);
  const title = typeof raw.title === 'string' ? raw.title : '';
  return {
    ...newConversation(Math.max(0, Math.trunc(numberOr(raw.updatedAt, 0)))),
    id: raw.id,
    title,
    messages,
  };
}

function messageFrom(raw: unknown, depth: number): Message | null {
  if (!isRecord(raw) || (raw.role !== 'user' && raw.role !== 'assistant')) return null;
  if (typeof raw.content !== 'string') return null;
  const message = newMessage(raw.role, raw.content, typeof raw.model === 'string' ? raw.model : '');
  if (typeof raw.id === 'string' && raw.id !== '') message.id = raw.id;
  if (typeof raw.reasoning === 'string') message.reasoning = raw.reasoning;
  if (Array.isArray(raw.calls)) message.calls = raw.calls.flatMap((call) => callFrom(call) ?? []);
  message.reasoningTokens = numberOr(raw.reasoningTokens, 0);
  message.reasoningSeconds = numberOr(raw.reasoningSeconds, 0);
  const ends = ['stop', 'length', 'stopped', 'error'] as const;
  // An answer without an end was being written when the page closed.
  message.end =
    ends.find((end) => end === raw.end) ?? (message.role === 'assistant' ? 'stopped' : '');
  message.error = errorFrom(raw.error);
  message.stats = statsFrom(raw.stats);
  if (Array.isArray(raw.attachments))
    message.attachments = raw.attachments.flatMap((one) => attachmentFrom(one) ?? []);
  if (Array.isArray(raw.others)) {
    message.others = raw.others
      .map((version: unknown) => (Array.isArray(version) ? messagesFrom(version, depth + 1) : []))
      .filter((version) => version.length > 0);
    const version = numberOr(raw.version, 0);
    message.version = Math.min(Math.max(Math.trunc(version), 0), message.others.length);
  }
  return message;
}

function attachmentFrom(raw: unknown): Attachment | null {
  if (!isRecord(raw) || typeof raw.name !== 'string' || typeof raw.text !== 'string') return null;
  return { name: raw.name, text: raw.text, pages: numberOr(raw.pages, 0) };
}

function callFrom(raw: unknown): ToolCall | null {
  if (!isRecord(raw) || typeof raw.name !== 'string' || typeof raw.arguments !== 'string')
    return null;
  return { name: raw.name, arguments: raw.arguments };
}

function errorFrom(raw: unknown): ApiError | null {
  if (!isRecord(raw) || typeof raw.message !== 'string') return null;
  const text = (value: unknown) => (typeof value === 'string' ? value : '');
  return { code: text(raw.code), message: raw.message, why: text(raw.why), fix: text(raw.fix) };
}

function statsFrom(raw: unknown): AnswerStats | null {
  if (!isRecord(raw)) return null;
  return {
    promptTokens: numberOr(raw.promptTokens, 0),
    cachedTokens: numberOr(raw.cachedTokens, 0),
    answerTokens: numberOr(raw.answerTokens, 0),
    draftTokens: numberOr(raw.draftTokens, 0),
    acceptedTokens: numberOr(raw.acceptedTokens, 0),
    acceptedText: rangesFrom(raw.acceptedText),
    estimated: raw.estimated === true,
    tokensPerSecond: numberOr(raw.tokensPerSecond, 0),
    firstTokenSeconds: numberOr(raw.firstTokenSeconds, 0),
  };
}

/** The ranges up to the first that is not one, or not after the one before it. */
function rangesFrom(raw: unknown): [number, number][] {
  const ranges: [number, number][] = [];
  for (const range of Array.isArray(raw) ? (raw as unknown[]) : []) {
    const [from, to] = (Array.isArray(range) ? range : []) as unknown[];
    if (!Number.isInteger(from) || !Number.isInteger(to)) break;
    const [start, end] = [from as number, to as number];
    if (start < (ranges.at(-1)?.[1] ?? 0) || end <= start) break;
    ranges.push([start, end]);
  }
  return ranges;
}

/** A text in parts, of which some were accepted drafts. Ranges may reach beyond its end. */
export function partsOf(
  text: string,
  ranges: readonly (readonly [number, number])[],
): { text: string; accepted: boolean }[] {
  const parts: { text: string; accepted: boolean }[] = [];
  let at = 0;
  const add = (to: number, accepted: boolean) => {
    if (text.slice(at, to)) parts.push({ text: text.slice(at, to), accepted });
    at = to;
  };
  for (const [from, to] of ranges) {
    add(from, false);
    add(to, true);
  }
  add(text.length, false);
  return parts;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

/** Whether an id is a valid file name (app/chats). */
export const validId = (id: string): boolean => /^[a-z0-9][a-z0-9-]{0,63}$/.test(id);

export function newId(): string {
  return (
    globalThis.crypto?.randomUUID?.() ??
    `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`
  );
}
