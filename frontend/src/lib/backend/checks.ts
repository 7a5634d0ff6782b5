// Checks of models against plain decoding, and the requests for them.
import { filled } from './fill';
import type { Send } from './transfers';
import type { ModelCheck } from './types';

export interface ChecksBackend {
  /** The check of a model that runs, or else the last one. */
  read(id: string): Promise<ModelCheck>;
  /** Starts a check in the background. */
  start(id: string): Promise<ModelCheck>;
  /** Stops a check; its process ends soon. */
  stop(id: string): Promise<void>;
}

export class HttpChecks implements ChecksBackend {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  async read(id: string): Promise<ModelCheck> {
    return filled('HostModelCheck', await (await this.#send('GET', address(id))).json());
  }

  async start(id: string): Promise<ModelCheck> {
    return filled('HostModelCheck', await (await this.#send('POST', address(id), {})).json());
  }

  async stop(id: string): Promise<void> {
    await this.#send('POST', `${address(id)}/stop`, {});
  }
}

const address = (id: string) => `control/models/${encodeURIComponent(id)}/check`;
