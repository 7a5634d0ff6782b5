// The fake trainings: the plan follows the request, and a test sets the progress.
import type {
  TrainingLosses,
  TrainingPlan,
  TrainingRequest,
  TrainingsBackend,
  TrainingStatus,
} from '../trainings';
import type { Job } from '../transfers';
import { refusal } from './refusal';
import { fakeJob, type FakeTransfers } from './transfers';

const GiB = 2 ** 30;

export class FakeTrainings implements TrainingsBackend {
  /** Whether the Python environment is there. */
  installed = false;
  /** What a plan has instead of what it would have. */
  change: Partial<TrainingPlan> = {};
  curves: TrainingLosses = {
    train: [10, 20, 30, 40].map((iteration) => ({ iteration, loss: 2.5 - iteration / 40 })),
    valid: [0, 20, 40].map((iteration) => ({ iteration, loss: 2.7 - iteration / 50 })),
  };
  readonly #calls: string[];
  readonly #transfers: FakeTransfers;

  constructor(calls: string[], transfers: FakeTransfers) {
    this.#calls = calls;
    this.#transfers = transfers;
  }

  async plan(request: TrainingRequest): Promise<TrainingPlan> {
    this.#calls.push(`plan training ${request.model} ${request.data}`);
    const faulty = request.data.endsWith('faulty.jsonl');
    const usable = request.data !== '' && !faulty;
    const needBytes = (request.batchSize || 4) * 2 * GiB;
    const fits = needBytes < 12 * GiB;
    const plan: TrainingPlan = {
      name: request.name || 'Tiny-data',
      adapter: `/home/you/models/adapters/${request.name || 'Tiny-data'}`,
      fineTuneType: request.fineTuneType,
      iterations: request.iterations || 1000,
      batchSize: request.batchSize || 4,
      learningRate: request.learningRate || 1e-5,
      layers: request.layers || 16,
      maxSeqLength: request.maxSeqLength || 2048,
      modelLayers: 28,
      quantized: true,
      sets: usable
        ? [
            fakeSet('train', 'train.jsonl', 360, ['user: Hello\nassistant: Hello to you']),
            fakeSet('valid', 'valid.jsonl', 40),
          ]
        : [],
      dataError: faulty
        ? { code: 'bad_request', message: 'The training was not started', why: 'x', fix: '' }
        : null,
      faults: faulty
        ? [
            { file: 'faulty.jsonl', line: 3, why: 'the line is empty, expected a JSON object' },
            { file: 'faulty.jsonl', line: 9, why: 'got "x", expected "messages"' },
          ]
        : [],
      memory: {
        needBytes,
        weightsBytes: GiB,
        parametersBytes: GiB / 8,
        activationsBytes: needBytes - (9 / 8) * GiB,
        logitsBytes: 0,
        roomBytes: 12 * GiB,
        fits: fits ? 'yes' : 'no',
        error: fits
          ? null
          : {
              code: 'does_not_fit',
              message: 'The training was not started',
              why: 'it needs about 16.0 GB',
              fix: 'Use less, alone or together: batch size 1 needs 2.0 GB.',
            },
      },
      python: {
        ready: this.installed,
        folder: '/home/you/python',
        diskBytes: 350 * 2 ** 20,
        packages: 'mlx-lm 0.32.2, mlx 0.32.4 and what they require',
        source: 'PyPI',
        error: null,
      },
      ready: usable && fits,
    };
    return { ...plan, ...this.change };
  }

  async start(request: TrainingRequest, install: boolean): Promise<Job> {
    this.#calls.push(`train ${request.model} ${request.data} ${request.iterations} ${install}`);
    const plan = await this.plan(request);
    if (!plan.ready) throw refusal('bad_request', 'The training was not started');
    const training = fakeTraining({
      model: request.model,
      data: request.data,
      fineTuneType: request.fineTuneType,
      name: plan.name,
      adapter: plan.adapter,
      iterations: plan.iterations,
    });
    const job = fakeJob({
      id: `training-${this.#transfers.jobs.length + 1}`,
      kind: 'training',
      title: plan.name,
      totalBytes: 0,
      phase: 'Training',
      training,
    });
    this.#transfers.set([...this.#transfers.jobs, job]);
    return job;
  }

  async losses(jobId: string): Promise<TrainingLosses> {
    this.#calls.push(`losses ${jobId}`);
    return this.curves;
  }

  async end(jobId: string): Promise<void> {
    this.#calls.push(`end ${jobId}`);
    this.#transfers.set(this.#transfers.jobs.filter(({ id }) => id !== jobId));
  }

  /** Changes the progress of a training, and its job. */
  progress(jobId: string, change: Partial<TrainingStatus>, job: Partial<Job> = {}): void {
    this.#transfers.set(
      this.#transfers.jobs.map((one) =>
        one.id === jobId && one.training
          ? { ...one, ...job, training: { ...one.training, ...change } }
          : one,
      ),
    );
  }
}

function fakeSet(part: 'train' | 'valid', file: string, samples: number, shown: string[] = []) {
  return {
    part,
    file,
    form: 'messages',
    samples,
    tokens: samples * 120,
    median: 110,
    longest: 480,
    cut: 0,
    masked: 0,
    shown,
  };
}

export function fakeTraining(change: Partial<TrainingStatus> = {}): TrainingStatus {
  return {
    model: 'qwen3.6-35b-a3b',
    data: '/home/you/data',
    fineTuneType: 'lora',
    name: 'Tiny-data',
    adapter: '/home/you/models/adapters/Tiny-data',
    iteration: 0,
    iterations: 1000,
    savedIteration: 0,
    trainLoss: null,
    validLoss: null,
    learningRate: 1e-5,
    iterationsPerSecond: 0,
    tokensPerSecond: 0,
    trainedTokens: 0,
    peakBytes: 0,
    secondsLeft: -1,
    losses: 0,
    ...change,
  };
}
