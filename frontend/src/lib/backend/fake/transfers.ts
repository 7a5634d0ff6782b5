// The fake backend's imports and downloads. No files are transferred. A test sets the progress of
// each job.
import type {
  HubChange,
  HubModel,
  HubRepository,
  HubSettings,
  ImportItem,
  ImportMode,
  Packing,
  ImportPlan,
  Job,
  Suggestion,
  TransfersBackend,
} from '../transfers';
import { fakeNeed } from './models';
import { fakeSuggestions } from './suggestions';

const GiB = 2 ** 30;

export class FakeTransfers implements TransfersBackend {
  jobs: Job[] = [];
  found: HubModel[] = [
    fakeHubModel('mlx-community/Qwen3.6-35B-A3B-4bit', {
      modelType: 'qwen3_5_moe',
      downloads: 48_210,
      sizeBytes: 19.5e9,
      ...judged(20.2 * GiB, 'no', '4-bit, group 64'),
    }),
    fakeHubModel('somebody/Llama-9-70B', { modelType: 'llama9', supported: false, mlx: false }),
    fakeHubModel('makers/Gated-8B', { gated: true, mlx: false, licence: 'llama3.1' }),
    fakeHubModel('mlx-community/Qwen3.6-35B-A3B-3bit', {
      modelType: 'qwen3_5_moe',
      downloads: 1_790,
      sizeBytes: 15.2e9,
      ...judged(15.1 * GiB, 'tight', '3-bit, group 64'),
    }),
  ];
  /** What a search in one publisher's models finds besides. */
  more: HubModel[] = [
    fakeHubModel('mlx-community/Qwen3.6-35B-A3B-8bit', {
      modelType: 'qwen3_5_moe',
      sizeBytes: 36.9e9,
      ...judged(36.6 * GiB, 'no', '8-bit, group 64'),
    }),
    fakeHubModel('mlx-community/Qwen3.6-35B-A3B-4bit', { modelType: 'qwen3_5_moe' }),
  ];
  settings: HubSettings = {
    endpoint: 'https://huggingface.co',
    configuredEndpoint: '',
    token: '',
    folder: '/home/you/.cache/huggingface/hub',
  };
  /** What a plan says of a path; a path that ends in .zip is refused. */
  item = (path: string, mode: ImportMode): ImportItem => {
    const name = path.split('/').at(-1) ?? path;
    const refused = path.endsWith('.zip');
    return {
      name,
      source: path,
      path: refused ? '' : `/home/you/models/${name}`,
      bytes: 18.6e9,
      writtenBytes: mode === 'copy' && !refused ? 18.6e9 : 0,
      converts: path.endsWith('.gguf'),
      clones: false,
      job: '',
      listed: '',
      error: refused
        ? {
            code: 'bad_request',
            message: `${name} is an archive`,
            why: '',
            fix: 'Unpack it, then import the folder that was in it.',
          }
        : null,
    };
  };
  readonly #calls: string[];
  readonly #fail: () => void;
  readonly #tell: (jobs: Job[]) => void;

  constructor(calls: string[], fail: () => void, tell: (jobs: Job[]) => void) {
    this.#calls = calls;
    this.#fail = fail;
    this.#tell = tell;
  }

  /** Changes the jobs and tells every watcher. */
  set(jobs: Job[]): void {
    this.jobs = jobs;
    this.#tell(jobs);
  }

  async plan(paths: string[], mode: ImportMode): Promise<ImportPlan> {
    this.#did(`plan ${mode} ${paths.join(' ')}`);
    const items = paths.map((path) => this.item(path, mode));
    return {
      mode,
      folder: '/home/you/models',
      items,
      writtenBytes: items.reduce((sum, { writtenBytes }) => sum + writtenBytes, 0),
      freeBytes: 212e9,
    };
  }

  async import(paths: string[], mode: ImportMode): Promise<ImportPlan> {
    const plan = await this.plan(paths, mode);
    this.#did(`import ${mode} ${paths.join(' ')}`);
    const items = plan.items.map((item) =>
      item.error ? item : { ...item, job: this.begin('import', item.name, item.bytes).id },
    );
    return { ...plan, items };
  }

  async planConversion(model: string, packing: Packing, name: string): Promise<ImportPlan> {
    this.#did(`plan conversion ${model} ${JSON.stringify(packing)} ${name}`);
    const bits = packing.mode === 'affine' ? packing.bits : 4;
    const own = packing.mode === 'affine' ? `${bits}bit` : packing.mode;
    const item = {
      ...this.item(model, 'copy'),
      name: name || `${model.split('/').at(-1)}-${own}`,
      bytes: bits * 1e9,
      writtenBytes: bits * 1e9,
      converts: true,
    };
    return {
      mode: 'copy',
      folder: '/home/you/models',
      items: [item],
      writtenBytes: item.writtenBytes,
      freeBytes: 212e9,
    };
  }

  async convert(model: string, packing: Packing, name: string): Promise<ImportPlan> {
    const plan = await this.planConversion(model, packing, name);
    this.#did(`convert ${model} ${JSON.stringify(packing)} ${name}`);
    const items = plan.items.map((item) => ({
      ...item,
      job: this.begin('import', item.name, item.bytes).id,
    }));
    return { ...plan, items };
  }

  async download(id: string, files: string[] | null): Promise<Job> {
    this.#did(`download ${id}${files ? ` ${files.join(' ')}` : ''}`);
    return this.begin('download', id, 18.6e9);
  }

  async stop(jobId: string): Promise<void> {
    this.#did(`stop ${jobId}`);
    this.#change(jobId, { state: 'stopped', bytesPerSecond: 0, secondsLeft: -1, phase: '' });
  }

  async resume(jobId: string): Promise<void> {
    this.#did(`resume ${jobId}`);
    this.#change(jobId, { state: 'running', error: null });
  }

  async remove(jobId: string): Promise<void> {
    this.#did(`remove ${jobId}`);
    this.set(this.jobs.filter(({ id }) => id !== jobId));
  }

  async search(words: string, owner: string): Promise<HubModel[]> {
    this.#did(`search ${words}${owner && ` of ${owner}`}`);
    return owner ? this.more : this.found;
  }

  async suggestions(): Promise<Suggestion[]> {
    return fakeSuggestions;
  }

  async repository(id: string): Promise<HubRepository> {
    this.#did(`repository ${id}`);
    const file = (path: string, bytes: number, needed = true) => ({ path, bytes, needed });
    const files = [
      file('config.json', 1200),
      file('model.safetensors', 18.5e9),
      file('tokenizer.json', 11e6),
      file('original.bin', 70e9, false),
    ];
    return { id, commit: 'c0ffee', gated: false, files, error: null };
  }

  async hub(): Promise<HubSettings> {
    this.#fail();
    return this.settings;
  }

  async changeHub({ endpoint, token }: HubChange): Promise<HubSettings> {
    this.#did(`hub ${endpoint ?? ''} ${token === undefined ? '' : '(token)'}`.trim());
    this.settings = {
      ...this.settings,
      ...(endpoint === undefined
        ? {}
        : { configuredEndpoint: endpoint, endpoint: endpoint || 'https://huggingface.co' }),
      ...(token === undefined ? {} : { token: token ? 'keychain' : '' }),
    };
    return this.settings;
  }

  #did(what: string): void {
    this.#calls.push(what);
    this.#fail();
  }

  begin(kind: Job['kind'], title: string, totalBytes: number): Job {
    const job = fakeJob({ id: `${kind}-${this.jobs.length + 1}`, kind, title, totalBytes });
    this.set([...this.jobs, job]);
    return job;
  }

  #change(id: string, change: Partial<Job>): void {
    this.set(this.jobs.map((job) => (job.id === id ? { ...job, ...change } : job)));
  }
}

export function fakeJob(change: Partial<Job> = {}): Job {
  return {
    id: 'download-1',
    kind: 'download',
    title: 'mlx-community/Qwen3.6-35B-A3B-4bit',
    state: 'running',
    phase: '',
    file: '',
    doneBytes: 0,
    totalBytes: 18.6e9,
    bytesPerSecond: 0,
    secondsLeft: -1,
    path: '',
    error: null,
    training: null,
    startedAt: 0,
    ...change,
  };
}

/** What a model would need, as the server judges it. */
export function judged(
  needBytes: number,
  fits: HubModel['fits'],
  quantization: string,
): Partial<HubModel> {
  const need = fakeNeed(needBytes, 40_960);
  return { needBytes, need, fits, quantization, tokensPerSecond: 41.3 };
}

export function fakeHubModel(id: string, change: Partial<HubModel> = {}): HubModel {
  return {
    id,
    modelType: 'qwen3',
    supported: true,
    why: '',
    mlx: true,
    tags: ['safetensors'],
    downloads: 1000,
    likes: 10,
    gated: false,
    licence: 'apache-2.0',
    sizeBytes: 0,
    updatedAt: 0,
    quantization: '',
    parameters: 0,
    contextTokens: 0,
    needBytes: 0,
    need: fakeNeed(0, 0),
    fits: 'no',
    tokensPerSecond: 0,
    ...change,
  };
}
