// Imports and downloads, as the pages see them.
//
// Each event carries all jobs. An import is first requested as a plan, so that the page can show
// what will happen.
import { HeadroomError, asHeadroomError, type Backend } from '../backend/backend';
import type {
  HubChange,
  HubModel,
  HubRepository,
  HubSettings,
  ImportMode,
  ImportPlan,
  Job,
  Packing,
  Suggestion,
  TransfersBackend,
} from '../backend/transfers';
import type { Model } from '../backend/types';
import { baseOf, type Family } from '../hub';

export class TransfersStore {
  readonly #backend: TransfersBackend;
  jobs = $state.raw<Job[]>([]);
  /** The last action that failed, until the next one or until dismissed. */
  error = $state.raw<HeadroomError | null>(null);
  /** The running actions: the id of a job or a model, or the action's name. */
  working = $state.raw<ReadonlySet<string>>(new Set());

  /** The paths of the planned import; empty: not chosen yet; null: no import is planned. */
  paths = $state.raw<string[] | null>(null);
  mode = $state<ImportMode>('copy');
  plan = $state.raw<ImportPlan | null>(null);

  /** The model that is to be packed in another way; null: none. */
  converting = $state.raw<Model | null>(null);
  conversion = $state.raw<ImportPlan | null>(null);
  #conversions = 0;

  /** The results of the last search; null before it. */
  found = $state.raw<HubModel[] | null>(null);
  /** The repository whose files are shown. */
  repository = $state.raw<HubRepository | null>(null);
  hub = $state.raw<HubSettings | null>(null);
  /** Models to begin with; null until they are read. */
  suggestions = $state.raw<Suggestion[] | null>(null);
  /** Whether the sheet for downloads is shown. */
  downloading = $state(false);
  #searches = 0;

  constructor(backend: Backend) {
    this.#backend = backend.transfers;
  }

  setJobs(jobs: Job[]): void {
    this.jobs = jobs;
  }

  /** Plans an import of these paths. Without paths it shows the empty sheet. */
  async planImport(paths: string[]): Promise<void> {
    this.paths = paths;
    this.plan = null;
    if (paths.length > 0) await this.#replan();
  }

  async choose(mode: ImportMode): Promise<void> {
    this.mode = mode;
    if (this.paths && this.paths.length > 0) await this.#replan();
  }

  /** Discards the plan. */
  discardPlan(): void {
    this.paths = null;
    this.plan = null;
    this.error = null;
  }

  async #replan(): Promise<void> {
    const paths = this.paths ?? [];
    await this.#act('plan', async () => {
      const plan = await this.#backend.plan(paths, this.mode);
      // Ignore the plan if the paths or the mode have changed in the meantime.
      if (this.paths === paths && plan.mode === this.mode) this.plan = plan;
    });
  }

  async import(): Promise<void> {
    const paths = this.paths;
    if (!paths) return;
    const begun = await this.#act(
      'import',
      async () => void (await this.#backend.import(paths, this.mode)),
    );
    if (begun) this.discardPlan();
  }

  /** Shows the sheet that packs a model in another way; null closes it. */
  askToConvert(model: Model | null): void {
    this.converting = model;
    this.conversion = null;
    this.error = null;
    this.#conversions++;
  }

  async planConversion(model: string, packing: Packing, name: string): Promise<void> {
    const asked = ++this.#conversions;
    await this.#act('plan-conversion', async () => {
      const plan = await this.#backend.planConversion(model, packing, name);
      if (asked === this.#conversions) this.conversion = plan;
    });
  }

  async convert(model: string, packing: Packing, name: string): Promise<void> {
    const begun = await this.#act('convert', async () => {
      const plan = await this.#backend.convert(model, packing, name);
      const refused = plan.items.find(({ error }) => error)?.error;
      if (refused) throw new HeadroomError(refused);
    });
    if (begun) this.askToConvert(null);
  }

  /** Downloads the files; null means those that the model needs. */
  download(id: string, files: string[] | null = null): Promise<boolean> {
    return this.#act(id, async () => void (await this.#backend.download(id, files)));
  }

  stop(job: Job): Promise<boolean> {
    return this.#act(job.id, () => this.#backend.stop(job.id));
  }

  resume(job: Job): Promise<boolean> {
    return this.#act(job.id, () => this.#backend.resume(job.id));
  }

  remove(job: Job): Promise<boolean> {
    return this.#act(job.id, () => this.#backend.remove(job.id));
  }

  async search(words: string): Promise<void> {
    const search = ++this.#searches;
    await this.#act('search', async () => {
      const found = await this.#backend.search(words, '');
      if (search === this.#searches) this.found = found;
    });
  }

  clearSearch(): void {
    this.#searches++;
    this.found = null;
  }

  /** Adds the other quantizations of a model to the results, from the same publisher. */
  async more({ base, owner, name }: Family): Promise<void> {
    if (this.working.has(`more ${base}`)) return;
    const search = this.#searches;
    await this.#act(`more ${base}`, async () => {
      const found = await this.#backend.search(name, owner);
      if (search !== this.#searches || !this.found) return;
      const known = new Set(this.found.map(({ id }) => id));
      const others = found.filter(({ id }) => baseOf(id) === base && !known.has(id));
      this.found = [...this.found, ...others];
    });
  }

  /** Reads the models to begin with. Without them, nothing is shown. */
  async readSuggestions(): Promise<void> {
    try {
      this.suggestions = await this.#backend.suggestions();
    } catch {
      this.suggestions ??= [];
    }
  }

  async look(id: string): Promise<void> {
    this.repository = null;
    await this.#act(`look ${id}`, async () => {
      this.repository = await this.#backend.repository(id);
    });
  }

  async readHub(): Promise<void> {
    await this.#act('hub', async () => {
      this.hub = await this.#backend.hub();
    });
  }

  changeHub(change: HubChange): Promise<boolean> {
    return this.#act('hub', async () => {
      this.hub = await this.#backend.changeHub(change);
    });
  }

  dismissError(): void {
    this.error = null;
  }

  async #act(what: string, action: () => Promise<void>): Promise<boolean> {
    this.error = null;
    this.working = new Set([...this.working, what]);
    try {
      await action();
      return true;
    } catch (cause) {
      this.error = asHeadroomError(cause);
      return false;
    } finally {
      this.working = new Set([...this.working].filter((other) => other !== what));
    }
  }
}
