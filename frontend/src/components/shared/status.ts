// The engine's states in words.
import type { EngineStatus } from '../../lib/backend/types';

const words: Record<EngineStatus, string> = {
  stopped: 'Stopped',
  loading: 'Loading',
  ready: 'Ready',
  busy: 'Busy',
  failed: 'Failed',
  unloaded: 'Unloaded',
};

export function stateWord(status: EngineStatus): string {
  return words[status] ?? status;
}
