// Trainings, and the requests for them. A training is a job: transfers.ts pauses, resumes and
// discards it.
import { filled } from './fill';
import type * as schema from './schema';
import type { Job, Send } from './transfers';

export type TrainingRequest = Required<schema.TrainRequest>;
/** What a training would do, and why it cannot start. */
export type TrainingPlan = schema.TrainingPlan;
export type TrainingSet = schema.TrainingSet;
/** The progress of a job that trains. */
export type TrainingStatus = schema.TrainStatus;
export type TrainingLosses = schema.TrainLosses;
/** A job that trains. */
export type TrainingJob = Job & { training: TrainingStatus };

export interface TrainingsBackend {
  /** Checks a training. Nothing changes. */
  plan(request: TrainingRequest): Promise<TrainingPlan>;
  /** Starts a training; install: the Python environment may be made for it. */
  start(request: TrainingRequest, install: boolean): Promise<Job>;
  /** The curves of a training, which change when `losses` of its status does. */
  losses(jobId: string): Promise<TrainingLosses>;
  /** Ends a paused training. Its adapter stays as its latest checkpoint is. */
  end(jobId: string): Promise<void>;
}

export class HttpTrainings implements TrainingsBackend {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  async plan(request: TrainingRequest): Promise<TrainingPlan> {
    const response = await this.#send('POST', 'control/trainings/plan', request);
    return filled('TrainingPlan', await response.json());
  }

  async start(request: TrainingRequest, install: boolean): Promise<Job> {
    const response = await this.#send('POST', 'control/trainings', { ...request, install });
    return filled('Job', await response.json());
  }

  async losses(jobId: string): Promise<TrainingLosses> {
    const response = await this.#send('GET', `${path(jobId)}/losses`);
    return filled('TrainLosses', await response.json());
  }

  async end(jobId: string): Promise<void> {
    await this.#send('POST', `${path(jobId)}/end`, {});
  }
}

const path = (jobId: string) => `control/trainings/${encodeURIComponent(jobId)}`;
