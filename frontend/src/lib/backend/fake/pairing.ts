// The fake pairing: the right code of another machine is 1234 5678, and a code that is shown here
// is typed when a test says so.
import type { PairingBackend } from '../pairing';
import type { JoinedMachine, Machine, Sharing, SharingChange } from '../types';
import { machines, removeMachine, setMachine } from './machines';
import { refusal } from './refusal';

const codeMs = 120_000;

export class FakePairing implements PairingBackend {
  readonly #calls: string[];
  state: Sharing = {
    on: false,
    open: false,
    problem: null,
    name: 'laptop',
    addresses: [],
    port: 11812,
    certificate: '',
    code: { phase: '', code: '', expiresAt: 0, tries: 0, machine: '' },
    users: [],
    find: false,
    findProblem: null,
    found: [],
    readOnly: [],
  };

  constructor(calls: string[]) {
    this.#calls = calls;
  }

  async read(): Promise<Sharing> {
    return this.state;
  }

  async change({ on = this.state.on, find = this.state.find }: SharingChange): Promise<Sharing> {
    this.#calls.push(`sharing ${on} ${find}`);
    const addresses = on ? ['192.168.1.7', '10.0.0.7'] : [];
    const found = find ? [{ name: 'studio', address: '192.168.1.5:11812' }] : [];
    this.state = { ...this.state, on, open: on, find, addresses, found };
    return this.state;
  }

  async showCode(both: boolean): Promise<Sharing> {
    this.#calls.push(`code ${both}`);
    if (!this.state.open) throw refusal('bad_request', 'This machine is not shared with others');
    const code = {
      phase: 'open' as const,
      code: '0815 4711',
      expiresAt: Date.now() + codeMs,
      tries: 3,
      machine: '',
    };
    this.state = { ...this.state, code };
    return this.state;
  }

  async hideCode(): Promise<Sharing> {
    this.#calls.push('hide');
    this.end('void');
    return this.state;
  }

  async join(address: string, code: string, both: boolean): Promise<JoinedMachine> {
    this.#calls.push(`join ${address} ${code} ${both}`);
    if (code.replace(/\D/g, '') !== '12345678')
      throw refusal('unauthorized', 'The code is wrong', '', 'Type it again.');
    setMachine({ name: 'studio', url: `https://${address}` });
    return { name: 'studio', address, both };
  }

  async machines(): Promise<Machine[]> {
    return machines().machines;
  }

  async removeMachine(id: string): Promise<Machine[]> {
    this.#calls.push(`remove ${id}`);
    return removeMachine(id).machines;
  }

  /** Ends the code that is shown: another machine has typed it, or nobody has. */
  end(phase: 'paired' | 'expired' | 'void') {
    const machine = phase === 'paired' ? 'studio' : '';
    const code = { ...this.state.code, phase, code: '', tries: 0, machine };
    const users = [...this.state.users];
    if (phase === 'paired')
      users.push({
        keyId: 'k1',
        name: 'paired: studio',
        certificate: 'ab12 cd34 ef56 7890',
        pairedAt: Date.now(),
        lastUsedAt: 0,
      });
    this.state = { ...this.state, code, users };
  }
}
