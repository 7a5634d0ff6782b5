import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { generate } from '../../../generate.mjs';
import { filled } from './fill';

const read = (name: string) => readFileSync(`src/lib/backend/${name}`, 'utf8');

test('schema.ts matches openapi.json; if not, run `npm run generate`', () => {
  expect(read('schema.ts')).toBe(generate(read('openapi.json')));
});

test('filled makes null lists empty, in nested documents and in the items of lists too', () => {
  const model = { id: 'm', places: null, download: { missing: null, parts: ['a'] } };
  const list = { models: [model], folders: null, watch: {} };
  expect(filled('HostModelList', list)).toEqual({
    models: [{ id: 'm', places: [], adapters: [], download: { missing: [], parts: ['a'] } }],
    folders: [],
    watch: {},
  });
  expect(filled('HostModelList', { models: null })).toMatchObject({ models: [] });
});

test('filled leaves null documents and other values alone', () => {
  expect(filled('HostModel', { id: 'm', download: null, places: [] })).toEqual({
    id: 'm',
    download: null,
    places: [],
    adapters: [],
  });
});
