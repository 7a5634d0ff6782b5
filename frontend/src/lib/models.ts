// The list of models: filtering, sorting, and descriptions. Pure functions, fast for thousands of
// models.
import type { Fit, Model } from './backend/types';
import { count, diskBytes, memoryBytes, share } from './format';
import { kvFormats as texts, needParts, verdicts } from '../strings/models';

/** use: what runs, then what fits by its last use, then what does not fit or cannot be used. */
export type ModelColumn = 'use' | 'name' | 'parameters' | 'size' | 'need';
export interface ModelOrder {
  column: ModelColumn;
  /** Greatest first; for names from Z to A. For use always false. */
  down: boolean;
}

/** Which models a person wants to see. */
export const kinds = ['all', 'fits', 'incomplete', 'unusable'] as const;
export type Kind = (typeof kinds)[number];

const belongs: Record<Kind, (model: Model) => boolean> = {
  all: () => true,
  fits: (model) => model.state === 'ready' && model.fits !== 'no',
  incomplete: (model) => model.state === 'downloading',
  unusable: (model) => model.state === 'broken' || model.state === 'not_loadable',
};

/**
 * The models of a kind that have every word of the filter in their name, architecture, quantization
 * or folder.
 */
export function matching(models: readonly Model[], kind: Kind, filter: string): Model[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return models.filter((model) => {
    if (!belongs[kind](model)) return false;
    if (wanted.length === 0) return true;
    const words = wordsOf(model);
    return wanted.every((word) => words.includes(word));
  });
}

/** What a search looks through, by model: made once, as each key searches thousands of models. */
const searched = new WeakMap<Model, string>();

function wordsOf(model: Model): string {
  let words = searched.get(model);
  if (words === undefined) {
    const { id, name, architecture, quantization, places } = model;
    words = [id, name, architecture, quantization, ...places.map(({ path }) => path)]
      .join(' ')
      .toLowerCase();
    searched.set(model, words);
  }
  return words;
}

const numbers: Record<Exclude<ModelColumn, 'name' | 'use'>, (model: Model) => number> = {
  parameters: (model) => model.parameters,
  size: (model) => model.sizeBytes,
  need: (model) => model.needBytes,
};

/** The names as they sort, by model: comparing two of them is much faster than a collator. */
const sortNames = new WeakMap<Model, string>();

/** A name without case and accents, and with numbers of one length: "m2" comes before "m10". */
function sortName(model: Model): string {
  let name = sortNames.get(model);
  if (name === undefined) {
    name = model.name
      .normalize('NFD')
      .replace(/\p{M}/gu, '')
      .toLowerCase()
      .replace(/\d+/g, (digits) => digits.padStart(12, '0'));
    sortNames.set(model, name);
  }
  return name;
}

function compareNames(a: Model, b: Model): number {
  const [one, other] = [sortName(a), sortName(b)];
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The ids of models and the times of their last use. */
export type LastUse = ReadonlyMap<string, number>;

/** What can be started first, in the order in which a person looks for it. */
function useRank(model: Model): number {
  if (model.loaded) return 0;
  if (unusable(model)) return 5;
  if (model.state === 'downloading') return 4;
  return { yes: 1, tight: 2, no: 3 }[model.error ? 'no' : model.fits];
}

/** Whether a model can never be started as it is. */
export const unusable = (model: Model) =>
  model.state === 'broken' || model.state === 'not_loadable' || model.state === 'drafter';

/** Sorts stably. A model's name is the last part of its id. */
export function ordered(
  models: readonly Model[],
  { column, down }: ModelOrder,
  used: LastUse = new Map(),
): Model[] {
  const sign = down ? -1 : 1;
  if (column === 'use')
    return models.toSorted(
      (a, b) =>
        useRank(a) - useRank(b) ||
        (used.get(b.id) ?? 0) - (used.get(a.id) ?? 0) ||
        compareNames(a, b),
    );
  if (column === 'name') return models.toSorted((a, b) => sign * compareNames(a, b));
  const value = numbers[column];
  return models.toSorted((a, b) => sign * (value(a) - value(b)));
}

/** Whether mlx-lm can train a model: one with files of its own that it can read. */
export const trainable = (model: Model) =>
  model.state === 'ready' &&
  !model.error &&
  model.task === '' &&
  !model.path.endsWith('.gguf') &&
  model.places[0]?.origin !== 'ollama';

/** The models, and after each one its adapters, which answer as models of their own. */
export const withAdapters = (models: readonly Model[]): Model[] =>
  models.flatMap((model) => [
    model,
    ...model.adapters.map(({ id, name }) => ({ ...model, id, name: `${model.name}+${name}` })),
  ]);

/** The adapter in a folder, if the list of models has it. */
export const adapterOf = (models: readonly Model[], folder: string) =>
  models.flatMap(({ adapters }) => adapters).find(({ path }) => path === folder) ?? null;

/** The most models in a list to choose from: the browser draws all of it. */
export const mostChoices = 200;

/**
 * The models of a list to choose from, in their order. Of more than mostChoices, those are left out
 * that come last by use; the Models page and the palette have them all. The chosen one stays.
 */
export function choices(models: readonly Model[], chosen = ''): readonly Model[] {
  if (models.length <= mostChoices) return models;
  const kept = new Set(ordered(models, { column: 'use', down: false }).slice(0, mostChoices));
  return models.filter((model) => kept.has(model) || model.id === chosen);
}

/** A download whose files have not grown for this long is paused. */
const stillMs = 60_000;

export type Tone = 'good' | 'tight' | 'bad' | 'plain';

const fitTones: Record<Fit, Tone> = { yes: 'good', tight: 'tight', no: 'bad' };

/** Above this share of the available memory, a fit is tight, as app/memory says. */
const tightShare = 0.85;

/** Whether an estimated need fits, in words, and the tone that colours them. */
export function fitOf(needBytes: number, roomBytes: number): { text: string; tone: Tone } {
  const fits = needBytes > roomBytes ? 'no' : needBytes > tightShare * roomBytes ? 'tight' : 'yes';
  return { text: verdicts.fits[fits], tone: fitTones[fits] };
}

/** A model's state in one or two words, and the tone that colours them. */
export function verdict(model: Model, now: number): { text: string; tone: Tone } {
  switch (model.state) {
    case 'downloading': {
      const { doneBytes = 0, totalBytes = 0 } = model.download ?? {};
      const stopped = model.updatedAt > 0 && now - model.updatedAt > stillMs;
      const done = totalBytes > 0 ? share(doneBytes, totalBytes) : diskBytes(doneBytes);
      return stopped
        ? { text: verdicts.paused(done), tone: 'tight' }
        : { text: verdicts.downloading(done), tone: 'plain' };
    }
    case 'broken':
      return { text: verdicts.broken, tone: 'bad' };
    case 'not_loadable':
      return { text: verdicts.notLoadable, tone: 'plain' };
    case 'drafter':
      return { text: verdicts.drafter, tone: 'plain' };
  }
  if (model.loaded) return { text: verdicts.running, tone: 'good' };
  return { text: verdicts.fits[model.fits], tone: fitTones[model.fits] };
}

/**
 * The context for which a model's need is given if that is shorter than a reader expects: than the
 * chosen one or, without a choice, than the longest that the model supports. Otherwise 0.
 */
export function shortContext(model: Model, chosenTokens: number): number {
  if (model.state !== 'ready' || model.error) return 0;
  const { contextTokens } = model.need;
  return contextTokens < (chosenTokens || model.contextTokens) ? contextTokens : 0;
}

/**
 * "Needs ~7.2 GB for 22,528 tokens, 15.5 GB available", with the context if it is short. Empty for
 * a model that cannot be loaded.
 */
export function needText(model: Model, roomBytes: number, chosenTokens = 0): string {
  if (model.state !== 'ready' || model.error) return '';
  const need = memoryBytes(model.needBytes);
  const context = shortContext(model, chosenTokens);
  return verdicts.needs(
    context > 0 ? verdicts.needAt(need, count(context)) : need,
    memoryBytes(roomBytes),
  );
}

/** What the need of a model covers: "weights 4.3 GB, one conversation of 40,960 tokens 2.5 GB". */
export function needPartsText(need: Model['need']): string {
  const parts = [
    [need.weightsBytes, needParts.weights],
    [need.kvBytes, (bytes: string) => needParts.conversation(count(need.contextTokens), bytes)],
    [need.stateBytes, needParts.state],
    [need.scratchBytes, needParts.scratch],
  ] as const;
  return parts
    .filter(([bytes]) => bytes > 0)
    .map(([bytes, text]) => text(memoryBytes(bytes)))
    .join(', ');
}

/** Whether a model is a download that has stopped, and that Headroom can resume. */
export function resumable(model: Model, now: number): boolean {
  return (
    model.state === 'downloading' &&
    model.places[0]?.origin === 'huggingface' &&
    now - model.updatedAt > stillMs
  );
}

/** Whether a model can be started now. */
export function startable(model: Model): boolean {
  return model.state === 'ready' && !model.error && !model.loaded && model.fits !== 'no';
}

/** "mlx-community" of "mlx-community/Qwen3.5-9B-4bit"; empty if the id has no publisher. */
export function publisher(model: Model): string {
  const slash = model.id.lastIndexOf('/');
  return slash > 0 && !model.id.startsWith('/') ? model.id.slice(0, slash) : '';
}

/** The contexts to choose from; 0: the context that each model would be loaded with. */
export const contexts = [0, 8192, 32768, 65536, 131072, 262144];

/** The short form of a context, rounded down: 32768 → "32K". */
export function contextText(tokens: number): string {
  return tokens >= 1024 ? `${Math.floor(tokens / 1024)}K` : String(tokens);
}

/** The formats of keys and values that a person can choose, as the settings name them. */
export const kvFormats: { name: keyof typeof texts; kvFormat: string; kvBits: string }[] = [
  { name: 'default', kvFormat: '', kvBits: '' },
  { name: 'affine8', kvFormat: 'affine', kvBits: '(8, 8)' },
  { name: 'affine4', kvFormat: 'affine', kvBits: '(4, 4)' },
  { name: 'q8_0', kvFormat: 'q8_0', kvBits: '' },
  { name: 'q4_0', kvFormat: 'q4_0', kvBits: '' },
  { name: 'f16', kvFormat: 'f16', kvBits: '' },
];
