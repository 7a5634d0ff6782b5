import { expect, test } from 'vitest';
import { fakeHubModel, judged } from './backend/fake/transfers';
import { baseOf, families, fitOf, packingOf, speedText } from './hub';

test('a family is a name without its packing', () => {
  for (const [id, base] of [
    ['mlx-community/Qwen3-8B-4bit', 'mlx-community/Qwen3-8B'],
    ['mlx-community/Qwen3-8B-4bit-DWQ-053125', 'mlx-community/Qwen3-8B'],
    ['mlx-community/Qwen3-8B-bf16', 'mlx-community/Qwen3-8B'],
    ['o/gpt-oss-20b-MXFP4-Q8', 'o/gpt-oss-20b'],
    ['o/Qwen3.5-4B-MLX-4bit', 'o/Qwen3.5-4B'],
    ['Qwen/Qwen3-8B', 'Qwen/Qwen3-8B'],
    ['o/Llama-3.1-8B-Instruct-GPTQ-INT4', 'o/Llama-3.1-8B-Instruct'],
    ['o/4bit', 'o/4bit'],
    ['plain', 'plain'],
  ])
    expect(baseOf(id!)).toBe(base);
});

test('families keep the order of the results, the smallest quantization first', () => {
  const model = (id: string, sizeBytes: number, supported = true) =>
    fakeHubModel(id, { sizeBytes, supported });
  const found = families([
    model('a/Odd', 1, false),
    model('b/M-8bit', 8e9),
    model('c/N', 5e9),
    model('b/M-4bit', 4e9),
    model('b/M-new', 0),
    model('b/M-3bit', 0),
  ]);
  expect(found.map(({ base, models }) => [base, ...models.map(({ id }) => id)])).toEqual([
    ['b/M', 'b/M-4bit', 'b/M-8bit', 'b/M-3bit'],
    ['c/N', 'c/N'],
    ['b/M-new', 'b/M-new'],
    ['a/Odd', 'a/Odd'],
  ]);
  expect(found[0]).toMatchObject({ owner: 'b', name: 'M', supported: true });
});

test('a packing is what the config says, or else the end of the name', () => {
  expect(packingOf(fakeHubModel('o/M-4bit', judged(1, 'yes', '4-bit, group 32')))).toBe(
    '4-bit, group 32',
  );
  expect(packingOf(fakeHubModel('o/M-4bit-DWQ'))).toBe('4bit-DWQ');
  expect(packingOf(fakeHubModel('o/M'))).toBe('As published');
});

test('what is not known is not judged, and speeds have no more digits than they mean', () => {
  expect(fitOf(fakeHubModel('o/M'))).toBeNull();
  expect(fitOf(fakeHubModel('o/M', judged(7, 'tight', '')))).toEqual({
    text: 'Tight',
    tone: 'tight',
  });
  expect([0.42, 2.6, 8.4, 41.3, 123].map(speedText)).toEqual([
    '0.4 tok/s',
    '2.6 tok/s',
    '8 tok/s',
    '40 tok/s',
    '120 tok/s',
  ]);
});
