// The Adapt page: the training that is being set up, its plan, and the curves of the trainings that
// run or have run. It outlives the page, so that a form half filled in is there again.
import { HeadroomError, asHeadroomError, type Backend } from '../backend/backend';
import type {
  TrainingJob,
  TrainingLosses,
  TrainingPlan,
  TrainingRequest,
} from '../backend/trainings';
import type { Job } from '../backend/transfers';

/** A field without a number is the default. */
export type TrainingForm = {
  [Field in keyof TrainingRequest]: TrainingRequest[Field] extends number
    ? number | null
    : TrainingRequest[Field];
};

const empty: TrainingForm = {
  model: '',
  data: '',
  name: '',
  fineTuneType: 'lora',
  iterations: null,
  batchSize: null,
  learningRate: null,
  layers: null,
  maxSeqLength: null,
  maskPrompt: false,
  gradCheckpoint: false,
};

export const isTraining = (job: Job): job is TrainingJob =>
  job.kind === 'training' && job.training !== null;

export class AdaptStore {
  readonly #backend: Backend;
  form = $state<TrainingForm>({ ...empty });
  /** What the form would do; null until it is known. */
  plan = $state.raw<TrainingPlan | null>(null);
  /** Why there is no plan. */
  planError = $state.raw<HeadroomError | null>(null);
  checking = $state(false);
  /** Why the last action failed, until the next one or until dismissed. */
  error = $state.raw<HeadroomError | null>(null);
  starting = $state(false);
  /** The curves, by job. */
  losses = $state.raw<ReadonlyMap<string, TrainingLosses>>(new Map());
  #asked = 0;
  /** How many losses were asked for last, by job. */
  readonly #seen = new Map<string, number>();

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** The form as a request. */
  get request(): TrainingRequest {
    const { form } = this;
    return {
      ...form,
      data: form.data.trim(),
      name: form.name.trim(),
      iterations: form.iterations ?? 0,
      batchSize: form.batchSize ?? 0,
      learningRate: form.learningRate ?? 0,
      layers: form.layers ?? 0,
      maxSeqLength: form.maxSeqLength ?? 0,
    };
  }

  /** Whether the plan is the one of the form as it is now. */
  get checked(): boolean {
    return this.plan !== null && !this.checking;
  }

  /** Sets up a training of a model. */
  choose(model: string): void {
    this.form.model = model;
    this.form.name = '';
  }

  /** Asks what the form would do. */
  async check(): Promise<void> {
    const asked = ++this.#asked;
    if (!this.form.model) {
      this.plan = null;
      this.planError = null;
      this.checking = false;
      return;
    }
    this.checking = true;
    try {
      const plan = await this.#backend.trainings.plan(this.request);
      if (asked !== this.#asked) return;
      this.plan = plan;
      this.planError = null;
    } catch (cause) {
      if (asked !== this.#asked) return;
      this.plan = null;
      this.planError = asHeadroomError(cause);
    }
    this.checking = false;
  }

  /** Starts the training. The Python environment is made for it if it is not there. */
  async start(): Promise<void> {
    if (this.starting) return;
    this.starting = true;
    await this.#act(() => this.#backend.trainings.start(this.request, true));
    this.starting = false;
    if (!this.error) this.form.name = '';
  }

  pause(job: Job): Promise<void> {
    return this.#act(() => this.#backend.transfers.stop(job.id));
  }

  resume(job: Job): Promise<void> {
    return this.#act(() => this.#backend.transfers.resume(job.id));
  }

  /** Removes a training from the list. What an unfinished one has saved is deleted. */
  remove(job: Job): Promise<void> {
    return this.#act(() => this.#backend.transfers.remove(job.id));
  }

  /** Ends a paused training with the adapter that it has. */
  end(job: Job): Promise<void> {
    return this.#act(() => this.#backend.trainings.end(job.id));
  }

  /** Reads the curves of a training if they have changed. */
  async readLosses(job: TrainingJob): Promise<void> {
    const { losses } = job.training;
    if (this.#seen.get(job.id) === losses) return;
    this.#seen.set(job.id, losses);
    try {
      const curves = await this.#backend.trainings.losses(job.id);
      this.losses = new Map([...this.losses, [job.id, curves]]);
    } catch {
      this.#seen.delete(job.id); // the next change asks again
    }
  }

  dismissError(): void {
    this.error = null;
  }

  async #act(action: () => Promise<unknown>): Promise<void> {
    this.error = null;
    try {
      await action();
    } catch (cause) {
      this.error = asHeadroomError(cause);
    }
  }
}
