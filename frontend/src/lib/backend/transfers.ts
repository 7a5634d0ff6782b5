// Imports, downloads and moves of the cache, and the requests for them.
import { filled } from './fill';
import type * as schema from './schema';

/** One import, download or move of the cache. */
export type Job = schema.Job;
export type JobState = Job['state'];

/** What an import does. */
export type ImportPlan = schema.ImportPlan;
export type ImportMode = ImportPlan['mode'];
/** One model of an import, or a folder that cannot be imported, with the reason. */
export type ImportItem = schema.ImportItem;

/** How the matrices of a converted model are packed. */
export type Packing = Required<schema.ImporterPacking>;

export type HubSettings = schema.HubSettings;
/** Missing fields do not change. An empty token removes the saved one. */
export type HubChange = schema.HubChange;
/** One result of a search. */
export type HubModel = schema.HubModel;
/** A model to begin with. */
export type Suggestion = schema.HostSuggestion;
export type HubRepository = schema.HubRepository;
export type HubFile = schema.HubFile;

export interface TransfersBackend {
  /** Returns what an import would do. */
  plan(paths: string[], mode: ImportMode): Promise<ImportPlan>;
  /** Imports every item of the plan that has no error. */
  import(paths: string[], mode: ImportMode): Promise<ImportPlan>;
  /** Returns what packing a model in another way would do. An empty name is the result's own. */
  planConversion(model: string, packing: Packing, name: string): Promise<ImportPlan>;
  /** Packs a model in another way. The model stays. */
  convert(model: string, packing: Packing, name: string): Promise<ImportPlan>;
  /** Downloads the files; null means those that the model needs. */
  download(id: string, files: string[] | null): Promise<Job>;
  /** Pauses the job and keeps what it has transferred. */
  stop(jobId: string): Promise<void>;
  resume(jobId: string): Promise<void>;
  /** Removes the job from the list. If it is unfinished, its partial files are deleted too. */
  remove(jobId: string): Promise<void>;
  /** Finds models of the hub; owner: whose, empty for everybody's. */
  search(words: string, owner: string): Promise<HubModel[]>;
  /** Three models that fit. */
  suggestions(): Promise<Suggestion[]>;
  repository(id: string): Promise<HubRepository>;
  hub(): Promise<HubSettings>;
  changeHub(change: HubChange): Promise<HubSettings>;
}

/** Sends a request. Throws a HeadroomError when the server refuses it. */
export type Send = (
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: unknown,
) => Promise<Response>;

export class HttpTransfers implements TransfersBackend {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  async plan(paths: string[], mode: ImportMode): Promise<ImportPlan> {
    return this.#json('ImportPlan', 'POST', 'control/imports/plan', { paths, mode });
  }

  async import(paths: string[], mode: ImportMode): Promise<ImportPlan> {
    return this.#json('ImportPlan', 'POST', 'control/imports', { paths, mode });
  }

  async planConversion(model: string, packing: Packing, name: string): Promise<ImportPlan> {
    return this.#json('ImportPlan', 'POST', 'control/imports/plan', {
      paths: [model],
      mode: 'copy',
      name,
      packing,
    });
  }

  async convert(model: string, packing: Packing, name: string): Promise<ImportPlan> {
    return this.#json('ImportPlan', 'POST', 'control/imports', {
      paths: [model],
      mode: 'copy',
      name,
      packing,
    });
  }

  async download(id: string, files: string[] | null): Promise<Job> {
    return this.#json('Job', 'POST', 'control/downloads', { id, files });
  }

  async stop(jobId: string): Promise<void> {
    await this.#send('POST', `control/jobs/${encodeURIComponent(jobId)}/stop`, {});
  }

  async resume(jobId: string): Promise<void> {
    await this.#send('POST', `control/jobs/${encodeURIComponent(jobId)}/resume`, {});
  }

  async remove(jobId: string): Promise<void> {
    await this.#send('DELETE', `control/jobs/${encodeURIComponent(jobId)}`);
  }

  async suggestions(): Promise<Suggestion[]> {
    return (await this.#json('HubSuggestions', 'GET', 'control/hub/suggestions')).suggestions;
  }

  async search(words: string, owner: string): Promise<HubModel[]> {
    const query = `words=${encodeURIComponent(words)}&owner=${encodeURIComponent(owner)}`;
    return (await this.#json('HubSearch', 'GET', `control/hub/search?${query}`)).models;
  }

  async repository(id: string): Promise<HubRepository> {
    return this.#json(
      'HubRepository',
      'GET',
      `control/hub/repository?id=${encodeURIComponent(id)}`,
    );
  }

  async hub(): Promise<HubSettings> {
    return this.#json('HubSettings', 'GET', 'control/hub');
  }

  async changeHub(change: HubChange): Promise<HubSettings> {
    return this.#json('HubSettings', 'PUT', 'control/hub', change);
  }

  async #json<Name extends keyof schema.Schemas>(
    name: Name,
    method: 'GET' | 'POST' | 'PUT',
    path: string,
    body?: unknown,
  ): Promise<schema.Schemas[Name]> {
    return filled(name, await (await this.#send(method, path, body)).json());
  }
}
