// A module that is loaded when it is first needed, so that pages without it open at once.
import { createSubscriber } from 'svelte/reactivity';

export class Lazy<T> {
  readonly #load: () => Promise<T>;
  readonly #loaded: () => void;
  #module: T | null = null;
  #loading: Promise<T> | null = null;
  readonly #watchers = new Set<() => void>();
  readonly #subscribe = createSubscriber((update) => {
    this.#watchers.add(update);
    return () => this.#watchers.delete(update);
  });

  /** loaded is called once, before those who wait for the module. */
  constructor(load: () => Promise<T>, loaded: () => void = () => {}) {
    this.#load = load;
    this.#loaded = loaded;
  }

  /** The module, or null while it is loading. What Svelte derives from it is derived again then. */
  get(): T | null {
    if (this.#module) return this.#module;
    this.#subscribe();
    this.ready().catch(() => {}); // the next one who needs it tries again
    return null;
  }

  /** Resolves to the module. */
  ready(): Promise<T> {
    this.#loading ??= this.#begin();
    return this.#loading;
  }

  async #begin(): Promise<T> {
    try {
      this.#module = await this.#load();
    } catch (cause) {
      this.#loading = null;
      throw cause;
    }
    this.#loaded();
    for (const update of this.#watchers) update();
    return this.#module;
  }
}
