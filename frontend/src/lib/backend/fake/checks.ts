// The checks of the fake backend: the rows come one after the other, with a pause before each.
import type { ChecksBackend } from '../checks';
import type { CheckRow, ModelCheck } from '../types';
import { refusal } from './refusal';

export function fakeCheckRow(change: Partial<CheckRow>): CheckRow {
  return {
    way: 'in a crowd',
    mustEqual: true,
    notTried: '',
    note: '',
    answers: 8,
    equalAnswers: 8,
    tokens: 384,
    equalTokens: 384,
    largestDifference: 0,
    prefillTokensPerSecond: 1204,
    decodeTokensPerSecond: 98.3,
    partings: [],
    ...change,
  };
}

/** The rows of a check, by the step that gives them. */
const steps: [what: string, rows: CheckRow[]][] = [
  [
    'plain, in a crowd, from the prefix cache',
    [
      fakeCheckRow({ way: 'plain, one by one', mustEqual: false }),
      fakeCheckRow({}),
      fakeCheckRow({
        way: 'from the prefix cache',
        note: '1,459 of 1,467 prompt tokens were cached',
      }),
    ],
  ],
  ['after a restart', [fakeCheckRow({ way: 'after a restart' })]],
  ['decoded ahead', [fakeCheckRow({ way: 'decoded ahead', note: '41 of 60 drafts were right' })]],
  [
    'another KV cache',
    [
      fakeCheckRow({
        way: 'KV cache in f16',
        mustEqual: false,
        equalAnswers: 7,
        equalTokens: 340,
        largestDifference: 0.0319,
        partings: [
          {
            prompt: 7,
            token: 4,
            plain: { text: 'w', ended: false, logprob: -2.763 },
            other: { text: '', ended: true, logprob: 0 },
          },
        ],
      }),
    ],
  ],
  ['another device', [fakeCheckRow({ way: 'on the GPU', mustEqual: false, notTried: 'no GPU' })]],
];

const none: Omit<ModelCheck, 'model'> = {
  status: 'none',
  step: 0,
  steps: 0,
  what: '',
  rows: [],
  device: '',
  kvFormat: '',
  answers: 0,
  maxTokens: 0,
  equal: false,
  verdict: '',
  error: null,
  startedAt: 0,
  endedAt: 0,
};

export class FakeChecks implements ChecksBackend {
  /** The last check of each model. */
  readonly last = new Map<string, ModelCheck>();
  running = '';
  /** Waits for the test or the clock before each step. */
  readonly #pause: () => Promise<unknown>;
  readonly #act: (call: string) => void;
  readonly #tell: (running: string) => void;

  /** tell is called after each change, with the model that is being checked. */
  constructor(
    pause: () => Promise<unknown>,
    act: (call: string) => void,
    tell: (running: string) => void,
  ) {
    this.#pause = pause;
    this.#act = act;
    this.#tell = tell;
  }

  async read(id: string): Promise<ModelCheck> {
    return this.last.get(id) ?? { ...none, model: id };
  }

  async start(id: string): Promise<ModelCheck> {
    this.#act(`check ${id}`);
    if (this.running)
      throw refusal(
        'busy',
        'A check is already running',
        `${this.running} is being checked`,
        'Wait until it is done, or stop it.',
      );
    this.running = id;
    this.set(id, { ...none, status: 'running', startedAt: Date.now() });
    void this.#run(id);
    return this.read(id);
  }

  async stop(id: string): Promise<void> {
    this.#act(`stop check ${id}`);
    if (this.running !== id) return;
    this.running = '';
    this.set(id, { status: 'stopped', endedAt: Date.now() });
  }

  /** Changes the check of a model. */
  set(id: string, change: Partial<ModelCheck>): void {
    this.last.set(id, { ...(this.last.get(id) ?? { ...none, model: id }), ...change });
    this.#tell(this.running);
  }

  async #run(id: string): Promise<void> {
    const began = this.last.get(id)!.startedAt;
    const over = () => this.running !== id || this.last.get(id)?.startedAt !== began;
    for (const [index, [what, rows]] of steps.entries()) {
      this.set(id, { step: index + 1, steps: steps.length, what });
      await this.#pause();
      if (over()) return;
      this.set(id, { rows: [...this.last.get(id)!.rows, ...rows] });
    }
    this.running = '';
    this.set(id, {
      status: 'done',
      device: 'CPU, AVX-512 VNNI, 2 threads',
      kvFormat: 'K8 g64 + V4 g32',
      answers: 8,
      maxTokens: 48,
      equal: true,
      verdict:
        'All 4 ways that must equal plain decoding do; others may differ: KV cache in f16 in 1 ' +
        'of 8 answers.',
      endedAt: Date.now(),
    });
  }
}
