// What the pages need from Headroom, and the error that they show.
//
// The pages know only this interface. http.ts implements it with a real server, fake/ without one,
// for tests and development.
import type {
  ApiError,
  ApiKey,
  ApiKeyChange,
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
  NewApiKey,
  GeneralChange,
  GeneralSettings,
  LogLines,
  Removed,
  State,
  StoredChoice,
  StoredDeleted,
  StoredItem,
  WhatIf,
  WhatIfQuery,
  Wired,
  WiredAction,
} from './types';
import type { AgentsBackend } from './agents';
import type { PairingBackend } from './pairing';
import type { ChatsBackend } from './chats';
import type { ChecksBackend } from './checks';
import type { SystemBackend } from './system';
import type { TrainingsBackend } from './trainings';
import type { Job, TransfersBackend } from './transfers';
import { unreachable as t } from '../../strings/errors';

export type Connection =
  | { status: 'connecting' }
  | { status: 'live' }
  /** The server does not answer. The next attempt is at `retryAt` (ms since 1970). */
  | { status: 'lost'; retryAt: number }
  /** The server refuses the token. */
  | { status: 'unauthorized' };

export interface Watcher {
  onState(state: State): void;
  onConnection(connection: Connection): void;
  /** Changes to the list of models. A watcher that missed one requests the whole list. */
  onModels?(changes: ModelChange[]): void;
  /** All jobs, when one of them has changed. */
  onJobs?(jobs: Job[]): void;
  /** The version of the chats, at once and whenever a chat has changed. */
  onChats?(version: number): void;
}

/** A subscription. */
export interface Watch {
  /** Reconnects now instead of at `retryAt`. Does nothing while live. */
  retry(): void;
  close(): void;
}

export interface Backend {
  /** Imports and downloads. */
  readonly transfers: TransfersBackend;
  /** Fine-tuning of models. */
  readonly trainings: TrainingsBackend;
  /** The Chat page's conversations on disk. */
  readonly chats: ChatsBackend;
  /** Checks of models against plain decoding. */
  readonly checks: ChecksBackend;
  /** Updates and bug reports. */
  readonly system: SystemBackend;
  readonly agents: AgentsBackend;
  readonly pairing: PairingBackend;
  /** Reports the state at once and after every change. Reconnects until it is closed. */
  watch(watcher: Watcher): Watch;
  /**
   * Loads a model. An empty id means the model used last, or the demo model. Resolves when loading
   * has begun.
   */
  start(model: string): Promise<State>;
  /** Unloads a model; empty: all of them. */
  stop(model?: string): Promise<State>;
  cancel(requestId: string): Promise<void>;
  /**
   * Sends a request to a path of the endpoint, such as decisions. Resolves to the document of the
   * answer, and rejects if it is aborted.
   */
  ask(path: string, body: object, signal: AbortSignal): Promise<unknown>;
  /** Streams one answer. Throws a HeadroomError; an aborted answer ends without one. */
  chat(request: ChatRequest, signal: AbortSignal): AsyncIterable<ChatEvent>;

  /**
   * Lists all models on this machine, with the memory that each needs at a context. 0 means the
   * context that each would be loaded with.
   */
  models(contextTokens: number): Promise<ModelList>;
  /** Reads all model folders again. */
  rescanModels(): Promise<void>;
  pauseWatching(paused: boolean): Promise<void>;
  /** Moves the copy at `path` to the trash. */
  removeModel(id: string, path: string): Promise<void>;
  /** Shows the copy at `path` in the system's file manager. */
  revealModel(id: string, path: string): Promise<void>;
  modelSettings(id: string): Promise<ModelSettings>;
  /** The IDs of the models that can draft for a model. */
  draftModels(id: string): Promise<string[]>;
  /** Replaces all settings of a model. They apply when it is loaded the next time. */
  changeModel(id: string, options: ModelOptions): Promise<ModelSettings>;
  whatIf(query: WhatIfQuery): Promise<WhatIf>;
  /** Returns the wired limit, and the commands that set it to limitBytes (0: the safe limit). */
  wired(limitBytes: number): Promise<Wired>;
  /** Changes the wired limit. Before that, a dialog of the system asks for an administrator. */
  changeWired(action: WiredAction, limitBytes: number): Promise<Wired>;

  /** Lists the last finished requests of the loaded model, newest first. */
  finished(): Promise<FinishedRequest[]>;
  /** Lists the cached conversations, last used first. */
  conversations(): Promise<ConversationList>;
  conversation(key: string): Promise<ConversationDetail>;
  /** Protects a cached conversation from eviction, or ends the protection. */
  pin(key: string, pinned: boolean): Promise<void>;
  /** Deletes the conversation's unshared files, and frees its memory. */
  forget(key: string): Promise<Removed>;
  /** Empties the cache, or deletes the entries of the model with that fingerprint. */
  clearCache(fingerprint?: string): Promise<Removed>;
  /** Lists what is stored on this computer. */
  stored(): Promise<StoredItem[]>;
  /** Deletes chats, cache, unfinished jobs and log, and what the choice adds. */
  deleteStored(choice: StoredChoice): Promise<StoredDeleted>;
  cacheSettings(): Promise<CacheSettings>;
  /** Missing fields do not change. */
  changeCache(change: CacheChange): Promise<CacheSettings>;
  /** Starts a job that moves the cache to another folder. */
  moveCache(dir: string): Promise<CacheMove>;

  apiKeys(): Promise<ApiKey[]>;
  /** Makes a key. Only the result has its text. */
  addApiKey(change: ApiKeyChange): Promise<NewApiKey>;
  /** Replaces the name and all limits of a key. */
  changeApiKey(id: string, change: ApiKeyChange): Promise<ApiKey[]>;
  removeApiKey(id: string): Promise<ApiKey[]>;

  generalSettings(): Promise<GeneralSettings>;
  /** Missing fields do not change. */
  changeGeneral(change: GeneralChange): Promise<GeneralSettings>;
  /** Returns the lines of the log after that number. */
  logs(after: number): Promise<LogLines>;
}

/** An error that the pages show: what happened (message), why, and what to do (fix). */
export class HeadroomError extends Error implements ApiError {
  readonly code: string;
  readonly why: string;
  readonly fix: string;
  readonly detail: string;

  constructor(error: ApiError) {
    super(error.message);
    this.name = 'HeadroomError';
    this.code = error.code;
    this.why = error.why;
    this.fix = error.fix;
    this.detail = error.detail ?? '';
  }
}

/** The error of a connection that failed. */
export function unreachable(cause: unknown): HeadroomError {
  return new HeadroomError({
    code: 'unreachable',
    message: t.message,
    why: t.why(cause instanceof Error ? cause.message : String(cause)),
    fix: t.fix,
  });
}

/** Converts a thrown value into an error that a card can show. */
export function asHeadroomError(cause: unknown): HeadroomError {
  return cause instanceof HeadroomError ? cause : unreachable(cause);
}

/**
 * Returns the error in the body of a response. Two forms occur: the control API's
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
    detail: text('detail'),
  });
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)[key]
    : undefined;
}
