// The fake agents: Codex is set up by writing lines, and Xcode by hand.
import type { AgentsBackend } from '../agents';
import type { Agent, AgentChange, AgentLine, AgentList, AgentPlan } from '../types';
import { refusal } from './refusal';

const agent = (id: string, name: string, change: Partial<Agent>): Agent => ({
  id,
  name,
  docs: `https://example.org/${id}`,
  state: 'notWritten',
  program: `~/.local/bin/${id}`,
  path: `~/.${id}/config`,
  canUndo: false,
  canLaunch: true,
  keyName: '',
  unavailable: '',
  ...change,
});

export class FakeAgents implements AgentsBackend {
  readonly #calls: string[];
  /** Whether the endpoint needs a key. */
  needsKey = false;
  agents: Agent[] = [
    agent('claude-code', 'Claude Code', { path: '~/.claude/settings.json' }),
    agent('codex', 'Codex', { path: '~/.codex/config.toml' }),
    agent('opencode', 'opencode', { program: '', path: '~/.config/opencode/opencode.json' }),
    agent('zed', 'Zed', { canLaunch: false, path: '~/.config/zed/settings.json' }),
    agent('xcode', 'Xcode', { canLaunch: false, state: 'manual', path: '', program: '' }),
    agent('continue', 'Continue', {
      canLaunch: false,
      program: '',
      path: '~/.continue/config.yaml',
      unavailable: '~/.continue/config.yaml cannot be changed: line 1: a bracket is missing.',
    }),
  ];

  constructor(calls: string[]) {
    this.#calls = calls;
  }

  #find(id: string): Agent {
    const found = this.agents.find((one) => one.id === id);
    if (!found) throw refusal('not_found', `There is no agent ${id}`);
    return found;
  }

  #set(id: string, change: Partial<Agent>) {
    this.agents = this.agents.map((one) => (one.id === id ? { ...one, ...change } : one));
  }

  async list(model: string): Promise<AgentList> {
    return {
      agents: this.agents,
      target: {
        url: 'http://127.0.0.1:11811/v1',
        model: model || 'mlx-community/Qwen3.6-35B-A3B-4bit',
        contextTokens: 32768,
        needsKey: this.needsKey,
      },
    };
  }

  async plan(id: string, model: string): Promise<AgentPlan> {
    const { name, path, state, canLaunch } = this.#find(id);
    const lines: AgentLine[] = [
      { kind: 'gap', text: '' },
      { kind: 'same', text: '# mine' },
      { kind: 'removed', text: 'model = "gpt"' },
      { kind: 'added', text: `model = "${model}"` },
    ];
    return {
      path,
      leadsTo: '',
      creates: false,
      deletes: false,
      lines: state === 'manual' || state === 'current' ? [] : lines,
      newKey: this.needsKey ? name : '',
      notes: [],
      steps: state === 'manual' ? ['Choose Locally Hosted, and enter the port 11811.'] : [],
      token: `write ${id} ${model}`,
      command: canLaunch ? `export BASE_URL=http://127.0.0.1:11811\n${id} --model ${model}` : '',
    };
  }

  async write(id: string, model: string, token: string): Promise<AgentChange> {
    this.#calls.push(`write ${id} ${model}`);
    const plan = await this.plan(id, model);
    if (plan.token !== token) throw refusal('changed', 'The file has changed since it was shown');
    this.#set(id, { state: 'current', canUndo: true, keyName: this.needsKey ? plan.newKey : '' });
    return plan;
  }

  async undoPlan(id: string): Promise<AgentChange> {
    return {
      path: this.#find(id).path,
      leadsTo: '',
      creates: false,
      deletes: false,
      lines: [
        { kind: 'removed', text: 'model = "m"' },
        { kind: 'added', text: 'model = "gpt"' },
      ],
      newKey: '',
      notes: ['The file will be as it was before, byte for byte.'],
      steps: [],
      token: `undo ${id}`,
    };
  }

  async undo(id: string, token: string): Promise<AgentChange> {
    this.#calls.push(token);
    this.#set(id, { state: 'notWritten', canUndo: false, keyName: '' });
    return this.undoPlan(id);
  }

  async launch(id: string, model: string, folder: string): Promise<void> {
    this.#calls.push(`launch ${id} ${model} ${folder}`);
  }
}
