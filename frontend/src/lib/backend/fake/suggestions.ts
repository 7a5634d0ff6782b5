// The suggestions of the fake backend.
import type { Suggestion } from '../transfers';
import { fakeNeed } from './models';

const GiB = 2 ** 30;

function suggestion(
  name: string,
  note: string,
  downloadBytes: number,
  needBytes: number,
  tokensPerSecond: number,
): Suggestion {
  return {
    id: `mlx-community/${name}`,
    note,
    downloadBytes,
    licence: 'apache-2.0',
    quantization: '4-bit, group 64',
    parameters: 0,
    contextTokens: 40_960,
    needBytes,
    need: fakeNeed(needBytes, 40_960),
    fits: 'yes',
    tokensPerSecond,
  };
}

/** The largest that fits first. */
export const fakeSuggestions: Suggestion[] = [
  suggestion('Qwen3-14B-4bit', 'qwen3_14B', 8.3e9, 10.6 * GiB, 9.4),
  suggestion('Qwen3-8B-4bit', 'qwen3_8B', 4.6e9, 6.9 * GiB, 17.2),
  suggestion('Qwen3.5-4B-MLX-4bit', 'qwen35_4B', 3.1e9, 4.1 * GiB, 33.1),
];
