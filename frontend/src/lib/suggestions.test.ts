import { expect, test } from 'vitest';
import { needs, suggested, suggestions } from './suggestions';

const GiB = 2 ** 30;
const names = (room: number) =>
  suggested(room * GiB).map(({ id }) => id.replace('mlx-community/', ''));

test.each([
  [1, ['Qwen3.5-4B-MLX-4bit', 'Qwen3-1.7B-4bit', 'Qwen3-0.6B-4bit']],
  [10, ['Qwen3-14B-4bit', 'Qwen3-8B-4bit', 'Qwen3.5-4B-MLX-4bit']],
  [7, ['Qwen3-8B-4bit', 'Qwen3.5-4B-MLX-4bit', 'Qwen3-1.7B-4bit']],
  [100, ['Qwen3.6-35B-A3B-4bit', 'Qwen3-14B-4bit', 'Qwen3-8B-4bit']],
])('room for %d GB', (room, found) => expect(names(room)).toEqual(found));

test('suggestions are sorted by size and have names of the hub', () => {
  expect(suggestions.map(({ bytes }) => bytes)).toEqual(
    suggestions.map(({ bytes }) => bytes).sort((a, b) => a - b),
  );
  for (const one of suggestions) expect(one.id).toMatch(/^[\w.-]+\/[\w.-]+$/);
  expect(needs(suggestions[3]!)).toBeGreaterThan(5 * GiB);
});
