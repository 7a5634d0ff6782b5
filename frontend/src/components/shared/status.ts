// The names of the engine's states.
import type { EngineStatus } from '../../lib/backend/types';
import { engineStates } from '../../strings/shared';

export function stateWord(status: EngineStatus): string {
  return engineStates[status] ?? status;
}
