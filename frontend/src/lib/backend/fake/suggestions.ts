// The suggestions of the fake backend.
import type { Suggestion } from '../types';
import { fakeNeed } from './models';

const GiB = 2 ** 30;

function suggestion(
  name: string,
  note: string,
  downloadBytes: number,
  needBytes: number,
  fits: Suggestion['fits'],
): Suggestion {
  const need = fakeNeed(needBytes, 40_960);
  return { id: `mlx-community/${name}`, note, downloadBytes, needBytes, need, fits };
}

/** The largest that fits first. */
export const fakeSuggestions: Suggestion[] = [
  suggestion('Qwen3-14B-4bit', 'qwen3_14B', 8.3e9, 10.6 * GiB, 'yes'),
  suggestion('Qwen3-8B-4bit', 'qwen3_8B', 4.6e9, 6.9 * GiB, 'yes'),
  suggestion('Qwen3.5-4B-MLX-4bit', 'qwen35_4B', 3.1e9, 4.1 * GiB, 'yes'),
];
