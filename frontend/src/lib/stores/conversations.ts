// Conversations: their types, and how they are parsed.
//
// They are stored on disk (conversations.svelte.ts). Those of earlier versions stay in the
// browser's localStorage, under one key, until they have been moved to the disk. Every field is
// checked when it is read, because any program may have written it. Invalid fields are left out and
// never stop the page.
import type { ChatSummary } from '../backend/chats';
import type { ApiError } from '../backend/types';
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
  };
}

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
    private: false,
    run: null,
  };
}

export const messagesFrom = (raw: readonly unknown[]): Message[] =>
  raw.flatMap((message) => messageFrom(message) ?? []);

/** The beginning of the first message in one line, cut at a word. */
export function titleOf(text: string): string {
  const line = text.trim().replace(/\s+/g, ' ');
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

function messageFrom(raw: unknown): Message | null {
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
  return message;
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
