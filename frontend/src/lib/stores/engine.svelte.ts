// The engine as the pages see it: the latest state, the connection, and the actions.
//
// One instance per window, created in main.ts. Each event replaces the whole state. The model that
// a person has picked is stored beside it.
import {
  HeadroomError,
  asHeadroomError,
  type Backend,
  type Connection,
  type Watch,
} from '../backend/backend';
import type { Model, State } from '../backend/types';
import { AdaptStore } from './adapt.svelte';
import { ModelsStore } from './models.svelte';
import { TransfersStore } from './transfers.svelte';

export class EngineStore {
  readonly backend: Backend;
  readonly models: ModelsStore;
  readonly transfers: TransfersStore;
  readonly adapt: AdaptStore;
  state = $state.raw<State | null>(null);
  connection = $state.raw<Connection>({ status: 'connecting' });
  /** Changes when the list of conversations changes. */
  chatsVersion = $state(-1);
  /** The last action that failed, until the next one or until dismissed. */
  actionError = $state.raw<HeadroomError | null>(null);
  /** An action is running; its controls are disabled. */
  busy = $state(false);
  /** The model picked in the list but not started; empty: the engine's choice. */
  #picked = $state('');
  /** The ids of requests that are being cancelled. */
  cancelling = $state.raw<ReadonlySet<string>>(new Set());
  #watch: Watch;

  constructor(backend: Backend) {
    this.backend = backend;
    this.models = new ModelsStore(backend);
    this.transfers = new TransfersStore(backend);
    this.adapt = new AdaptStore(backend);
    this.#watch = backend.watch({
      onState: (state) => this.#take(state),
      onConnection: (connection) => (this.connection = connection),
      onModels: (changes) => this.models.applyChanges(changes),
      onJobs: (jobs) => this.transfers.setJobs(jobs),
      onChats: (version) => (this.chatsVersion = version),
    });
  }

  close(): void {
    this.models.close();
    this.#watch.close();
  }

  retryConnection(): void {
    this.#watch.retry();
  }

  /** Loading, ready, busy or unloaded: the switch is on. */
  get on(): boolean {
    const status = this.state?.engine.status;
    return status === 'loading' || status === 'ready' || status === 'busy' || status === 'unloaded';
  }

  /** Whether a question can be sent now. An unloaded model is loaded for it. */
  get answering(): boolean {
    const status = this.state?.engine.status;
    return (
      this.connection.status === 'live' &&
      (status === 'ready' || status === 'busy' || status === 'unloaded')
    );
  }

  /** The loaded model, or else the model that the switch starts. */
  get model(): Model | null {
    const state = this.state;
    if (!state) return null;
    const models = this.models.all;
    const byId = (id: string) => (id ? models.find((model) => model.id === id) : undefined);
    const usable = (model: Model) => !model.error && model.fits !== 'no';
    const current = this.on ? byId(state.engine.model) : byId(this.#picked);
    return (
      current ??
      byId(state.engine.model) ??
      models.find((model) => model.bundled && usable(model)) ??
      models.find(usable) ??
      null
    );
  }

  /** Picks a model. A running engine switches to it at once. */
  async pick(id: string): Promise<void> {
    this.#picked = id;
    if (this.on && this.state?.engine.model !== id) await this.start();
  }

  /** Starts a model and puts it in front. Others stay loaded if memory allows. */
  async run(id: string): Promise<void> {
    this.#picked = id;
    await this.start();
  }

  /** Reloads a model, so that its settings apply. */
  async restart(id: string): Promise<void> {
    await this.stop(id);
    if (!this.actionError) await this.run(id);
  }

  async start(): Promise<void> {
    const id = this.#picked || this.model?.id || '';
    await this.#act(async () => this.#take(await this.backend.start(id)));
  }

  /** Unloads a model; empty: all of them. */
  async stop(id = ''): Promise<void> {
    await this.#act(async () => this.#take(await this.backend.stop(id)));
  }

  async cancel(requestId: string): Promise<void> {
    this.cancelling = new Set([...this.cancelling, requestId]);
    try {
      await this.backend.cancel(requestId);
    } catch (cause) {
      const error = asHeadroomError(cause);
      if (error.code === 'not_found') return; // The request has ended meanwhile.
      this.cancelling = new Set([...this.cancelling].filter((id) => id !== requestId));
      this.actionError = error;
    }
  }

  dismissError(): void {
    this.actionError = null;
  }

  async #act(action: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.actionError = null;
    try {
      await action();
    } catch (cause) {
      this.actionError = asHeadroomError(cause);
    } finally {
      this.busy = false;
    }
  }

  #take(state: State): void {
    this.state = state;
    this.models.update(state);
    if (this.cancelling.size === 0) return;
    const running = new Set(state.requests.map((request) => request.id));
    this.cancelling = new Set([...this.cancelling].filter((id) => running.has(id)));
  }
}
