// Imports, downloads and moves of the cache: the control API's documents, word for word (app/control/jobs.go and hub.go), and how they are asked for.
import type { ApiError } from './types';

export type JobState = 'waiting' | 'running' | 'done' | 'failed' | 'stopped';

/** One import, download or move of the cache. */
export interface Job {
  id: string;
  /** cache: the cache on disk goes to another folder. */
  kind: 'import' | 'download' | 'cache';
  /** The model's name, or the cache's new folder. */
  title: string;
  state: JobState;
  /** What it does now, in a word or two, and with which file. */
  phase: string;
  file: string;
  doneBytes: number;
  /** 0: not known. */
  totalBytes: number;
  bytesPerSecond: number;
  /** Below 0: not known. */
  secondsLeft: number;
  /** Of one that is done: the model's folder, or the cache's. */
  path: string;
  error: ApiError | null;
  startedAt: number;
}

export type ImportMode = 'copy' | 'move' | 'link';

/** What an import does. */
export interface ImportPlan {
  mode: ImportMode;
  folder: string;
  items: ImportItem[];
  /** That the disk must take at most. */
  writtenBytes: number;
  /** Below 0: not known. */
  freeBytes: number;
}

/** One model, or something that is none. */
export interface ImportItem {
  name: string;
  source: string;
  path: string;
  bytes: number;
  /** 0: nothing is copied. */
  writtenBytes: number;
  /** The disk can share the original's blocks. */
  clones: boolean;
  /** Why it cannot be imported; null: it can. */
  error: ApiError | null;
  /** The id of its import; empty in a plan. */
  job: string;
}

export interface HubSettings {
  endpoint: string;
  /** The settings' address; empty: Hugging Face's. */
  own: string;
  /** Where there is a token; empty: nowhere. */
  token: '' | 'environment' | 'keychain' | 'file';
  folder: string;
}

/** What is missing stays; an empty token removes the one that is kept. */
export interface HubChange {
  endpoint?: string;
  token?: string;
}

/** One result of a search. */
export interface HubModel {
  id: string;
  /** Its config.json's model_type; empty: not known. */
  kind: string;
  /** Headroom knows that kind, or the kind is not known. */
  runs: boolean;
  mlx: boolean;
  tags: string[];
  downloads: number;
  likes: number;
  gated: boolean;
  updatedAt: number;
}

export interface HubRepository {
  id: string;
  commit: string;
  gated: boolean;
  files: HubFile[];
  /** Why it is of no use here; null: it is. */
  error: ApiError | null;
}

export interface HubFile {
  path: string;
  /** Below 0: not known. */
  bytes: number;
  /** It is downloaded unless files are chosen. */
  needed: boolean;
}

export interface TransfersBackend {
  /** What importing would do; changes nothing. */
  plan(paths: string[], mode: ImportMode): Promise<ImportPlan>;
  /** Imports what can be imported. */
  import(paths: string[], mode: ImportMode): Promise<ImportPlan>;
  /** files: null for those that the model needs. */
  download(id: string, files: string[] | null): Promise<Job>;
  /** What has been done so far is kept. */
  stop(jobId: string): Promise<void>;
  resume(jobId: string): Promise<void>;
  /** Takes it off the list; if it is not done, what it has left behind is removed. */
  remove(jobId: string): Promise<void>;
  search(words: string): Promise<HubModel[]>;
  repository(id: string): Promise<HubRepository>;
  hub(): Promise<HubSettings>;
  changeHub(change: HubChange): Promise<HubSettings>;
}

/** Asks the server, and throws a HeadroomError when it refuses. */
export type Ask = (
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: unknown,
) => Promise<Response>;

export class HttpTransfers implements TransfersBackend {
  readonly #ask: Ask;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  async plan(paths: string[], mode: ImportMode): Promise<ImportPlan> {
    return planOf(await this.#json('POST', 'api/imports/plan', { paths, mode }));
  }

  async import(paths: string[], mode: ImportMode): Promise<ImportPlan> {
    return planOf(await this.#json('POST', 'api/imports', { paths, mode }));
  }

  async download(id: string, files: string[] | null): Promise<Job> {
    return (await this.#json('POST', 'api/downloads', { id, files })) as Job;
  }

  async stop(jobId: string): Promise<void> {
    await this.#ask('POST', `api/jobs/${encodeURIComponent(jobId)}/stop`, {});
  }

  async resume(jobId: string): Promise<void> {
    await this.#ask('POST', `api/jobs/${encodeURIComponent(jobId)}/resume`, {});
  }

  async remove(jobId: string): Promise<void> {
    await this.#ask('DELETE', `api/jobs/${encodeURIComponent(jobId)}`);
  }

  async search(words: string): Promise<HubModel[]> {
    const { models } = (await this.#json(
      'GET',
      `api/hub/search?words=${encodeURIComponent(words)}`,
    )) as { models: HubModel[] | null };
    return (models ?? []).map((model) => ({ ...model, tags: model.tags ?? [] }));
  }

  async repository(id: string): Promise<HubRepository> {
    const repository = (await this.#json(
      'GET',
      `api/hub/repository?id=${encodeURIComponent(id)}`,
    )) as HubRepository;
    return { ...repository, files: repository.files ?? [] };
  }

  async hub(): Promise<HubSettings> {
    return (await this.#json('GET', 'api/hub')) as HubSettings;
  }

  async changeHub(change: HubChange): Promise<HubSettings> {
    return (await this.#json('PUT', 'api/hub', change)) as HubSettings;
  }

  async #json(method: 'GET' | 'POST' | 'PUT', path: string, body?: unknown): Promise<unknown> {
    return (await this.#ask(method, path, body)).json();
  }
}

function planOf(raw: unknown): ImportPlan {
  const plan = raw as ImportPlan;
  return { ...plan, items: plan.items ?? [] };
}
