// The models that were found, as the pages see them.
//
// The server does not push the list. The page requests it again when its version, the loaded models
// or the available memory changes. A long list is not requested again and again while a download
// grows: there is a pause after each request. The Models page may request it for a chosen context;
// all other pages see each model at the context it would be loaded with.
import { HeadroomError, asHeadroomError, type Backend } from '../backend/backend';
import type {
  Engine,
  Model,
  ModelChange,
  ModelList,
  ModelOptions,
  ModelSettings,
  State,
} from '../backend/types';
import { modelsDone as t } from '../../strings/models';

/** The pause after a request: ten times the duration of the request, but at least a second. */
const leastPauseMs = 1000;
const pauseFactor = 10;
/** A change of the available memory by this share reloads the list, because the verdicts change. */
const roomShare = 0.03;

/** A model whose download ended while the page was open. */
export interface Arrival {
  id: string;
  at: number;
}

export class ModelsStore {
  readonly backend: Backend;
  /** null until the first answer. */
  list = $state.raw<ModelList | null>(null);
  /** The list for the chosen context; null: none is chosen. */
  chosen = $state.raw<ModelList | null>(null);
  contextTokens = $state(0);
  loadError = $state.raw<HeadroomError | null>(null);
  /** The last action that failed, until the next one or until dismissed. */
  actionError = $state.raw<HeadroomError | null>(null);
  /** The result of the last action, as a text. */
  done = $state('');
  /** The running actions: 'list', or the id of a model. */
  working = $state.raw<ReadonlySet<string>>(new Set());
  arrivals = $state.raw<Arrival[]>([]);
  /** The id of the model whose details are shown, also while another page is open. */
  selected = $state('');

  #mark = '';
  #room = 0;
  #loading = false;
  #again = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #notBefore = 0;
  #closed = false;

  constructor(backend: Backend) {
    this.backend = backend;
  }

  /** Every model, at the context it would be loaded with. */
  get all(): Model[] {
    return this.list?.models ?? [];
  }

  /** Every model, at the chosen context. */
  get shown(): Model[] {
    return (this.contextTokens > 0 ? (this.chosen ?? this.list) : this.list)?.models ?? [];
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** Reloads the list if a new state may have changed it. */
  update(state: State): void {
    const stateOf = ({ model, status }: Engine) =>
      `${model} ${status === 'busy' ? 'ready' : status}`;
    // The server orders them by their last use.
    const engines = state.engines.map(stateOf).toSorted();
    const mark = [state.modelsVersion, stateOf(state.engine), ...engines].join('\n');
    const moved =
      Math.abs(state.roomBytes - this.#room) > roomShare * Math.max(this.#room, state.roomBytes);
    if (mark === this.#mark && !moved) return;
    this.#mark = mark;
    this.#room = state.roomBytes;
    this.#later();
  }

  /** Records finished downloads. `update` reloads the list. */
  applyChanges(changes: ModelChange[]): void {
    const arrived = changes
      .filter(({ kind }) => kind === 'finished')
      .map(({ id }) => ({ id, at: Date.now() }));
    if (arrived.length === 0) return;
    const ids = new Set(arrived.map(({ id }) => id));
    this.arrivals = [...this.arrivals.filter(({ id }) => !ids.has(id)), ...arrived];
  }

  dismissArrival(id: string): void {
    this.arrivals = this.arrivals.filter((arrival) => arrival.id !== id);
  }

  /** Chooses a context; 0: the one that each model would be loaded with. */
  async setContext(tokens: number): Promise<void> {
    this.contextTokens = tokens;
    await this.reload();
  }

  /** Reads the list now. */
  async reload(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#load();
  }

  async rescan(): Promise<void> {
    await this.#act('list', async () => {
      await this.backend.rescanModels();
      await this.reload();
      return t.rescanned;
    });
  }

  async pauseWatching(paused: boolean): Promise<void> {
    await this.#act('list', async () => {
      await this.backend.pauseWatching(paused);
      await this.reload();
      return paused ? t.watchingPaused : t.watching;
    });
  }

  /** Moves a copy of a model to the Trash. Resolves to whether that succeeded. */
  remove(model: Model, path: string): Promise<boolean> {
    return this.#act(model.id, async () => {
      await this.backend.removeModel(model.id, path);
      await this.reload();
      return t.trashed(model.name);
    });
  }

  reveal(model: Model, path: string): Promise<boolean> {
    return this.#act(model.id, async () => {
      await this.backend.revealModel(model.id, path);
      return '';
    });
  }

  settings(id: string): Promise<ModelSettings> {
    return this.backend.modelSettings(id);
  }

  draftModels(id: string): Promise<string[]> {
    return this.backend.draftModels(id);
  }

  /** Saves the settings of a model. Resolves to the new settings, or to null after an error. */
  async change(model: Model, options: ModelOptions): Promise<ModelSettings | null> {
    let saved: ModelSettings | null = null;
    await this.#act(model.id, async () => {
      saved = await this.backend.changeModel(model.id, options);
      await this.reload();
      return '';
    });
    return saved;
  }

  dismissError(): void {
    this.actionError = null;
  }

  async #act(id: string, action: () => Promise<string>): Promise<boolean> {
    this.actionError = null;
    this.done = '';
    this.working = new Set([...this.working, id]);
    try {
      this.done = await action();
      return true;
    } catch (cause) {
      this.actionError = asHeadroomError(cause);
      return false;
    } finally {
      this.working = new Set([...this.working].filter((other) => other !== id));
    }
  }

  #later(): void {
    if (this.#timer !== undefined || this.#closed) return;
    if (Date.now() >= this.#notBefore) {
      void this.#load();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#load();
    }, this.#notBefore - Date.now());
  }

  async #load(): Promise<void> {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = true;
    const started = Date.now();
    try {
      const tokens = this.contextTokens;
      const [list, chosen] = await Promise.all([
        this.backend.models(0),
        tokens > 0 ? this.backend.models(tokens) : null,
      ]);
      this.list = list;
      this.chosen = chosen;
      this.loadError = null;
    } catch (cause) {
      this.loadError = asHeadroomError(cause);
    } finally {
      this.#loading = false;
      this.#notBefore = Date.now() + Math.max(leastPauseMs, pauseFactor * (Date.now() - started));
    }
    if (this.#again) {
      this.#again = false;
      this.#later();
    }
  }
}
