// Setting up coding agents, and the requests for it.
import { filled } from './fill';
import type { Send } from './transfers';
import type { AgentChange, AgentList, AgentPlan } from './types';

export interface AgentsBackend {
  /** How the agents are set up; model: what they are to use, '' for the one in front. */
  list(model: string): Promise<AgentList>;
  /** What `write` would write. */
  plan(id: string, model: string): Promise<AgentPlan>;
  /** Writes what the plan with the token has shown. */
  write(id: string, model: string, token: string): Promise<AgentChange>;
  /** What `undo` would take back. */
  undoPlan(id: string): Promise<AgentChange>;
  undo(id: string, token: string): Promise<AgentChange>;
  /** Opens a terminal that runs the agent; folder '' is the home folder. */
  launch(id: string, model: string, folder: string): Promise<void>;
}

export class HttpAgents implements AgentsBackend {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  async list(model: string): Promise<AgentList> {
    const response = await this.#send('GET', `control/agents?${query(model)}`);
    return filled('AgentList', await response.json());
  }

  async plan(id: string, model: string): Promise<AgentPlan> {
    const response = await this.#send('GET', `${path(id)}?${query(model)}`);
    return filled('AgentPlan', await response.json());
  }

  async write(id: string, model: string, token: string): Promise<AgentChange> {
    const response = await this.#send('POST', path(id), { model, token });
    return filled('AgentsPlan', await response.json());
  }

  async undoPlan(id: string): Promise<AgentChange> {
    return filled('AgentsPlan', await (await this.#send('GET', `${path(id)}/undo`)).json());
  }

  async undo(id: string, token: string): Promise<AgentChange> {
    const response = await this.#send('POST', `${path(id)}/undo`, { token });
    return filled('AgentsPlan', await response.json());
  }

  async launch(id: string, model: string, folder: string): Promise<void> {
    await this.#send('POST', `${path(id)}/launch`, { model, folder });
  }
}

const path = (id: string) => `control/agents/${encodeURIComponent(id)}`;
const query = (model: string) => new URLSearchParams({ model }).toString();
