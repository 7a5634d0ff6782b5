// The other machines of the fake backend: what is added answers at once, with one model.
import { refusal } from './refusal';
import type * as schema from '../schema';

const list: schema.Machine[] = [];

/** Returns the document of GET /control/machines. */
export const machines = (): schema.MachineList => ({ machines: [...list], error: '' });

/** Adds a machine, or changes the one with the ID. */
export function setMachine(change: schema.MachineChange, id = ''): schema.MachineList {
  const at = list.findIndex((one) => one.id === id);
  if (id && at < 0) throw missing(id);
  const name = change.name || (change.url ?? '').replace(/^\w+:\/\//, '').replace(/[:/].*/, '');
  const before = list[at];
  const one: schema.Machine = {
    id: id || `m${list.length + 1}`,
    name: name || before?.name || 'machine',
    kind: change.kind || before?.kind || 'headroom',
    url: change.url || before?.url || '',
    certificate: change.certificate ?? '',
    paired: before?.paired ?? false,
    hasKey: before?.hasKey ?? Boolean(change.apiKey),
    off: change.off ?? false,
    usedModels: change.usedModels ?? [],
    error: '',
    requests: 0,
    roomBytes: 0,
    models: [
      { id: 'mlx-community/Qwen3-8B-4bit', loaded: true, contextTokens: 40960, requests: 0 },
    ],
  };
  if (at < 0) list.push(one);
  else list[at] = one;
  return machines();
}

/** Removes a machine. */
export function removeMachine(id: string): schema.MachineList {
  const at = list.findIndex((one) => one.id === id);
  if (at < 0) throw missing(id);
  list.splice(at, 1);
  return machines();
}

const missing = (id: string) => refusal('not_found', `There is no machine "${id}"`);
