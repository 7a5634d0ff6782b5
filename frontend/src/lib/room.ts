// The memory for a model, in words. The server decides how much it is.
import { room as t } from '../strings/shared';
import type { State } from './backend/types';
import { count, memoryBytes } from './format';

/**
 * "15.5 GB available after unloading Qwen3-8B-4bit". Pinned models stay, so they are not named; nor
 * is any while as much is available beside the loaded ones.
 */
export function roomText({ roomBytes, memory, engines }: State): string {
  const loaded = engines.filter(
    ({ status, pinned }) => (status === 'ready' || status === 'busy') && !pinned,
  );
  if (loaded.length === 0 || roomBytes === memory.headroomBytes)
    return t.available(memoryBytes(roomBytes));
  const [first] = loaded;
  const name = loaded.length === 1 ? first!.model : t.models(count(loaded.length));
  return t.availableAfter(memoryBytes(roomBytes), name.slice(name.lastIndexOf('/') + 1));
}
