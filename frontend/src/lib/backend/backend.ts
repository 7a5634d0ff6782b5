// What the pages need from Headroom, and the one error they have to understand.
//
// http.ts speaks to a real server, fake.ts plays one for tests and development. The
// pages know only this interface.
import type {
  ApiError,
  CacheChange,
  CacheMove,
  CacheSettings,
  ChatEvent,
  ChatRequest,
  ConversationDetail,
  ConversationList,
  FinishedRequest,
  ModelChange,
  ModelList,
  ModelOptions,
  ModelSettings,
  GeneralChange,
  GeneralSettings,
  LogLines,
  Removed,
  State,
  WhatIf,
  WhatIfQuery,
  Wired,
  WiredAction,
} from './types';
import type { ChatsBackend } from './chats';
import type { Job, TransfersBackend } from './transfers';

export type Connection =
  | { status: 'connecting' }
  | { status: 'live' }
  /** Nothing answers; the next attempt is at `retryAt` (ms since 1970). */
  | { status: 'lost'; retryAt: number }
  /** The server answers, but does not know us. */
  | { status: 'unauthorized' };

export interface Watcher {
  onState(state: State): void;
  onConnection(connection: Connection): void;
  /** What became of models since the last time. Who has missed some sees it in the list. */
  onModels?(changes: ModelChange[]): void;
  /** All imports and downloads, whenever one of them has changed. */
  onJobs?(jobs: Job[]): void;
  /** Another number: the list of conversations, or one of them, is another. */
  onChats?(version: number): void;
}

/** A running subscription. */
export interface Watch {
  /** Tries again now instead of at `retryAt`. Does nothing while live. */
  retry(): void;
  close(): void;
}

export interface Backend {
  /** Imports and downloads. */
  readonly transfers: TransfersBackend;
  /** The Chat page's conversations on disk. */
  readonly chats: ChatsBackend;
  /** Reports the state at once and on every change, reconnecting until closed. */
  watch(watcher: Watcher): Watch;
  /** An empty id means the model used last, or the demo model. Resolves when loading has begun. */
  start(model: string): Promise<State>;
  stop(): Promise<State>;
  cancel(requestId: string): Promise<void>;
  /** Streams one answer. Ends by itself, throws a HeadroomError, or ends early when aborted. */
  chat(request: ChatRequest, signal: AbortSignal): AsyncIterable<ChatEvent>;

  /**
   * All models found on this machine, with the memory that each needs at a context. 0 means the
   * context that each would be loaded with.
   */
  models(contextTokens: number): Promise<ModelList>;
  /** Reads all folders anew. */
  rescanModels(): Promise<void>;
  pauseWatching(paused: boolean): Promise<void>;
  /** Moves the copy at `path` to the trash. */
  removeModel(id: string, path: string): Promise<void>;
  /** Shows the copy at `path` in the system's file manager. */
  revealModel(id: string, path: string): Promise<void>;
  modelSettings(id: string): Promise<ModelSettings>;
  /** Replaces them all. They hold when the model is next started. */
  changeModel(id: string, options: ModelOptions): Promise<ModelSettings>;
  whatIf(query: WhatIfQuery): Promise<WhatIf>;
  /** With the commands for a limit; 0: for what is safe. */
  wired(limitBytes: number): Promise<Wired>;
  /** The system's own dialog asks for an administrator before anything is done. */
  changeWired(action: WiredAction, limitBytes: number): Promise<Wired>;

  /** The last requests of the running model that have ended, newest first. */
  finished(): Promise<FinishedRequest[]>;
  /** What is kept of conversations, those used last first. */
  conversations(): Promise<ConversationList>;
  conversation(key: string): Promise<ConversationDetail>;
  /** Keeps it from being evicted, or ends that. */
  pin(key: string, pinned: boolean): Promise<void>;
  /** Takes the files away that are the conversation's alone. */
  forget(key: string): Promise<Removed>;
  /** Takes away everything on disk, or what is of one model, by its fingerprint. */
  clearCache(fingerprint?: string): Promise<Removed>;
  cacheSettings(): Promise<CacheSettings>;
  /** Fields that are missing stay. */
  changeCache(change: CacheChange): Promise<CacheSettings>;
  /** Begins to move what is kept to another folder, as a job. */
  moveCache(dir: string): Promise<CacheMove>;

  generalSettings(): Promise<GeneralSettings>;
  /** Fields that are missing stay. */
  changeGeneral(change: GeneralChange): Promise<GeneralSettings>;
  /** The lines of the log behind that number. */
  logs(after: number): Promise<LogLines>;
}

/** Every failure the pages show: what (message), why, and what to do (fix). */
export class HeadroomError extends Error implements ApiError {
  readonly code: string;
  readonly why: string;
  readonly fix: string;

  constructor(error: ApiError) {
    super(error.message);
    this.name = 'HeadroomError';
    this.code = error.code;
    this.why = error.why;
    this.fix = error.fix;
  }
}

/** What is said when nothing answers. */
export function unreachable(cause: unknown): HeadroomError {
  return new HeadroomError({
    code: 'unreachable',
    message: 'Headroom did not answer.',
    why: `The connection failed: ${cause instanceof Error ? cause.message : String(cause)}.`,
    fix: 'Start Headroom again from the menu bar or with `headroom serve`.',
  });
}

/** Turns anything thrown into the error that a card can show. */
export function asHeadroomError(cause: unknown): HeadroomError {
  return cause instanceof HeadroomError ? cause : unreachable(cause);
}

/**
 * Reads the body of a failed answer. Both forms occur: the control API's
 * {error: {code, message, why, fix}} and OpenAI's {error: {code, message, type}}.
 */
export function errorFromBody(body: unknown, fallback: string): HeadroomError {
  const error = field(body, 'error');
  const text = (key: string) => {
    const value = field(error, key);
    return typeof value === 'string' ? value : '';
  };
  return new HeadroomError({
    code: text('code') || text('type') || 'unknown',
    message: text('message') || (typeof error === 'string' && error) || fallback,
    why: text('why'),
    fix: text('fix'),
  });
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)[key]
    : undefined;
}
