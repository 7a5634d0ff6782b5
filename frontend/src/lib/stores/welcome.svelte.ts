// The welcome of a first start: whether it is shown, and its step. Closing it at any step marks it
// as seen; Settings shows it again.
import type { Backend } from '../backend/backend';

export const welcomeSteps = 2;

export class WelcomeStore {
  readonly #backend: Backend;
  shown = $state(false);
  /** [0, welcomeSteps) */
  step = $state(0);
  #asked = false;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Shows the welcome unless the server says that it was closed before. Asks only once. */
  async begin(): Promise<void> {
    if (this.#asked) return;
    this.#asked = true;
    try {
      if (!(await this.#backend.generalSettings()).welcomed) this.show();
    } catch {
      // Without the setting the welcome is not shown.
    }
  }

  show(): void {
    this.step = 0;
    this.shown = true;
  }

  go(step: number): void {
    this.step = Math.min(Math.max(step, 0), welcomeSteps - 1);
  }

  async close(): Promise<void> {
    this.shown = false;
    try {
      await this.#backend.changeGeneral({ welcomed: true });
    } catch {
      // The next start shows it again.
    }
  }
}
