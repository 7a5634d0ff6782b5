// First models for a machine that has none: in MLX format, of supported architectures, one for each
// size of memory. The memory need is estimated; a download asks the hub for the files and checks
// for disk space before it begins. Each name was found in public documents or programs that load it
// from the hub (November 2026). The hub itself was not queried.
import type { suggestions as texts } from '../strings/models';

export interface Suggestion {
  id: string;
  /** The approximate size of its files. */
  bytes: number;
  /** The key of the text that says what the model is good for. */
  note: keyof typeof texts.notes;
}

/** The smallest first. */
export const suggestions: readonly Suggestion[] = [
  { id: 'mlx-community/Qwen3-0.6B-4bit', bytes: 0.35e9, note: 'qwen3_600M' },
  { id: 'mlx-community/Qwen3-1.7B-4bit', bytes: 1e9, note: 'qwen3_1700M' },
  { id: 'mlx-community/Qwen3.5-4B-MLX-4bit', bytes: 3.1e9, note: 'qwen35_4B' },
  { id: 'mlx-community/Qwen3-8B-4bit', bytes: 4.6e9, note: 'qwen3_8B' },
  { id: 'mlx-community/Qwen3-14B-4bit', bytes: 8.3e9, note: 'qwen3_14B' },
  {
    id: 'mlx-community/Qwen3.6-35B-A3B-4bit',
    bytes: 20.4e9,
    note: 'qwen36_35B',
  },
];

const GiB = 2 ** 30;

/** Estimates the memory need: the weights, plus a tenth and 1 GB for keys, values and scratch. */
export function needs({ bytes }: Suggestion): number {
  return bytes * 1.1 + GiB;
}

/** The three largest that fit, the largest first. If fewer fit, the three smallest. */
export function suggested(roomBytes: number): Suggestion[] {
  const fit = suggestions.filter((one) => needs(one) <= roomBytes).length;
  const end = Math.max(fit, 3);
  return suggestions.slice(end - 3, end).reverse();
}
