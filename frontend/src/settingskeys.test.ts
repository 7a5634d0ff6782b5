// Every key of the settings file is on a page, or is listed here with the reason.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const document = readFileSync('../app/settings/SETTINGS.md', 'utf8');

const pages =
  Object.values(
    import.meta.glob('./**/*.svelte', { query: '?raw', import: 'default', eager: true }) as Record<
      string,
      string
    >,
  ).join('\n') +
  Object.values(
    import.meta.glob('./lib/sampling.ts', {
      query: '?raw',
      import: 'default',
      eager: true,
    }) as Record<string, string>,
  ).join('\n');

/** For each key whose name differs in the source of its page: the name there. */
const elsewhere: Record<string, string> = {
  pauseWatching: 'store.pauseWatching(', // the Models page
  shareWithMachines: 'pairing.change({ on })', // the card of machines
  findMachines: 'pairing.change({ find })',
  hubEndpoint: 'store.changeHub({ endpoint', // the hub's form, on the Models page
  maxSize: 'maxBytes',
  minFree: 'minFreeBytes',
  dailyWrites: 'dailyWriteBytes',
  off: 'settings.on', // the Cache page
};

const sections = 'a section of keys';
const remembered = 'saved automatically, not set by a person';
const tuning =
  'for measurements and unusual models: the default suits all tested machines, and a flag sets it';
const fileOnly: Record<string, string> = {
  version: 'the version of the file format',
  cache: sections,
  models: sections,
  noApiKey: 'written when the API key is removed on the Settings page',
  model: remembered,
  recent: remembered,
  engineOn: remembered,
  welcomed: remembered,
  unencrypted: 'a decision about one folder, which makes it less safe: a flag sets it, too',
  memoryCacheSize: tuning,
  promptCacheSize: tuning,
  noPreload: tuning,
  preferPrefill: tuning,
  maxPrefillStallMs: tuning,
  machinesPort: 'the default suits all but unusual networks: a flag sets it, too',
  aliases: 'for clients that ask for a model by a fixed name',
  kvGroupSize: tuning,
  kvBoundaryLayers: tuning,
  kvBoundaryBits: tuning,
  kvStartTokens: tuning,
  maxKVTokens: tuning,
  snapKV: 'changes answers to long prompts: a flag sets it, too',
  snapKVTokens: tuning,
  numDraftTokens: tuning,
};

const keys = [...document.matchAll(/^\| `(\w+)` \|/gm)].map(([, key]) => key!);

test('the document has keys', () => expect(keys.length).toBeGreaterThan(40));

test.each(keys)('%s', (key) => {
  const onPage =
    pages.includes(elsewhere[key] ?? key) &&
    (elsewhere[key] !== undefined ||
      new RegExp(`['"]${key}['"]|\\b${key}:|\\.${key}\\b`).test(pages));
  if (key in fileOnly) expect(fileOnly[key]).not.toBe('');
  else
    expect(onPage, `${key} is on no page: add it, or name it with a reason in fileOnly`).toBe(true);
});

test('the lists name only keys that exist', () => {
  expect(
    [...Object.keys(fileOnly), ...Object.keys(elsewhere)].filter((key) => !keys.includes(key)),
  ).toEqual([]);
});
