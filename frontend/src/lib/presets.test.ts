import { expect, test } from 'vitest';
import { presetsFrom, withPreset } from './presets';

test('presets are read from any content of the storage', () => {
  const good = { name: 'Brief', prompt: 'Be brief.', sampling: { temperature: 0.2, topP: 7 } };
  expect(presetsFrom([null, 7, {}, { name: '', prompt: '' }, good])).toEqual([
    { name: 'Brief', prompt: 'Be brief.', sampling: { temperature: 0.2 } },
  ]);
  expect(presetsFrom({})).toEqual([]);
});

test('a preset replaces the one of its name; they are in order', () => {
  const preset = (name: string, prompt = '') => ({ name, prompt, sampling: {} });
  const presets = withPreset([preset('b'), preset('c')], preset('a'));
  expect(withPreset(presets, preset('b', 'new')).map(({ name, prompt }) => name + prompt)).toEqual([
    'a',
    'bnew',
    'c',
  ]);
});
