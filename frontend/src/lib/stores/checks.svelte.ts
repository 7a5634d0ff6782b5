// The check of one model against plain decoding, as its details show it.
import { HeadroomError, asHeadroomError } from '../backend/backend';
import type { ChecksBackend } from '../backend/checks';
import type { ModelCheck } from '../backend/types';

export class CheckStore {
  /** The model's ID. */
  readonly id: string;
  readonly #backend: ChecksBackend;
  /** null until the first answer. */
  check = $state.raw<ModelCheck | null>(null);
  /** Why the last action failed, until the next one or until dismissed. */
  error = $state.raw<HeadroomError | null>(null);
  /** An action is running; another one has to wait. */
  busy = $state(false);
  /** Answers may arrive in another order than their requests were sent. */
  #asked = 0;
  #shown = 0;

  constructor(backend: ChecksBackend, id: string) {
    this.#backend = backend;
    this.id = id;
  }

  /** Reads the check; to be called whenever State.checksVersion changes. */
  async read(): Promise<void> {
    try {
      await this.#show(this.#backend.read(this.id));
    } catch {
      // The next change of the state reads it again.
    }
  }

  start(): Promise<void> {
    return this.#act(() => this.#show(this.#backend.start(this.id)));
  }

  stop(): Promise<void> {
    return this.#act(() => this.#backend.stop(this.id));
  }

  dismissError(): void {
    this.error = null;
  }

  async #show(answer: Promise<ModelCheck>): Promise<void> {
    const number = ++this.#asked;
    const check = await answer;
    if (number < this.#shown) return;
    this.#shown = number;
    this.check = check;
  }

  async #act(action: () => Promise<void>): Promise<void> {
    this.error = null;
    this.busy = true;
    try {
      await action();
    } catch (cause) {
      this.error = asHeadroomError(cause);
    } finally {
      this.busy = false;
    }
  }
}
