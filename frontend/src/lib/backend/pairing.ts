// Sharing this computer with other machines, pairing, and the requests for it.
import { filled } from './fill';
import type { Send } from './transfers';
import type { JoinedMachine, Machine, Sharing, SharingChange } from './types';

export interface PairingBackend {
  /** Asking starts a search for machines, if that is on and the last one is a while ago. */
  read(): Promise<Sharing>;
  change(change: SharingChange): Promise<Sharing>;
  /** Shows a new code; both: this machine would like to use the other one, too. */
  showCode(both: boolean): Promise<Sharing>;
  hideCode(): Promise<Sharing>;
  /** Pairs with the machine that shows the code. */
  join(address: string, code: string, both: boolean): Promise<JoinedMachine>;
  /** The machines that this one may use, paired or added by their address. */
  machines(): Promise<Machine[]>;
  removeMachine(id: string): Promise<Machine[]>;
}

export class HttpPairing implements PairingBackend {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  async #ask(method: Parameters<Send>[0], path: string, body?: object): Promise<Sharing> {
    const response = await this.#send(method, `control/pairing${path}`, body);
    return filled('Sharing', await response.json());
  }

  read(): Promise<Sharing> {
    return this.#ask('GET', '');
  }

  change(change: SharingChange): Promise<Sharing> {
    return this.#ask('PUT', '', change);
  }

  showCode(both: boolean): Promise<Sharing> {
    return this.#ask('POST', '/code', { both });
  }

  hideCode(): Promise<Sharing> {
    return this.#ask('DELETE', '/code');
  }

  async join(address: string, code: string, both: boolean): Promise<JoinedMachine> {
    const response = await this.#send('POST', 'control/pairing/join', { address, code, both });
    return filled('JoinedMachine', await response.json());
  }

  async #list(method: 'GET' | 'DELETE', path: string): Promise<Machine[]> {
    const response = await this.#send(method, path);
    return filled('MachineList', await response.json()).machines;
  }

  machines(): Promise<Machine[]> {
    return this.#list('GET', 'control/machines');
  }

  removeMachine(id: string): Promise<Machine[]> {
    return this.#list('DELETE', `control/machines/${encodeURIComponent(id)}`);
  }
}
