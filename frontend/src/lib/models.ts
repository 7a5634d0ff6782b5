// The list of models: filtering, sorting, and descriptions. Pure functions, fast for thousands of
// models.
import type { Fit, Model } from './backend/types';
import { diskBytes, memoryBytes, share } from './format';

export type ModelColumn = 'name' | 'parameters' | 'size' | 'need';
export interface ModelOrder {
  column: ModelColumn;
  /** Greatest first; for names from Z to A. */
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
 * The models of a kind that have every word of the filter in name, architecture, packing or folder.
 */
export function matching(models: readonly Model[], kind: Kind, filter: string): Model[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return models.filter((model) => {
    if (!belongs[kind](model)) return false;
    if (wanted.length === 0) return true;
    const words = [
      model.id,
      model.name,
      model.architecture,
      model.quantization,
      ...model.places.map(({ path }) => path),
    ]
      .join(' ')
      .toLowerCase();
    return wanted.every((word) => words.includes(word));
  });
}

const numbers: Record<Exclude<ModelColumn, 'name'>, (model: Model) => number> = {
  parameters: (model) => model.parameters,
  size: (model) => model.sizeBytes,
  need: (model) => model.needBytes,
};
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** Sorts stably. By name means the last part of the id, which tells models apart at a glance. */
export function ordered(models: readonly Model[], { column, down }: ModelOrder): Model[] {
  const sign = down ? -1 : 1;
  if (column === 'name') return models.toSorted((a, b) => sign * collator.compare(a.name, b.name));
  const value = numbers[column];
  return models.toSorted((a, b) => sign * (value(a) - value(b)));
}

/** A download that nothing was added to for so long has stopped. */
const stillMs = 60_000;

export type Tone = 'good' | 'tight' | 'bad' | 'plain';

/** What a model's line says about it, in a few words, and how loudly. */
export function verdict(model: Model, now: number): { text: string; tone: Tone } {
  switch (model.state) {
    case 'downloading': {
      const { doneBytes = 0, totalBytes = 0 } = model.download ?? {};
      const stopped = model.updatedAt > 0 && now - model.updatedAt > stillMs;
      const done = totalBytes > 0 ? share(doneBytes, totalBytes) : diskBytes(doneBytes);
      return stopped
        ? { text: `Paused at ${done}`, tone: 'tight' }
        : { text: `Downloading, ${done}`, tone: 'plain' };
    }
    case 'broken':
      return { text: 'Damaged', tone: 'bad' };
    case 'not_loadable':
      return { text: 'Unsupported', tone: 'plain' };
  }
  if (model.loaded) return { text: 'Running', tone: 'good' };
  const words: Record<Fit, { text: string; tone: Tone }> = {
    yes: { text: 'Fits', tone: 'good' },
    tight: { text: 'Tight', tone: 'tight' },
    no: { text: 'Does not fit', tone: 'bad' },
  };
  return words[model.fits];
}

/** "Needs ~7.2 GB, 15.5 GB available": why it fits or not. Empty for what cannot be loaded anyway. */
export function needText(model: Model, roomBytes: number): string {
  if (model.state !== 'ready' || model.error) return '';
  return `Needs ~${memoryBytes(model.needBytes)}, ${memoryBytes(roomBytes)} available`;
}

/** One click starts it. */
export function startable(model: Model): boolean {
  return model.state === 'ready' && !model.error && !model.loaded && model.fits !== 'no';
}

export const originNames: Record<Model['places'][number]['origin'], string> = {
  huggingface: 'Hugging Face cache',
  lmstudio: 'LM Studio',
  omlx: 'oMLX',
  ollama: 'Ollama',
  folder: 'Folder',
};

/** "mlx-community" of "mlx-community/Qwen3.5-9B-4bit"; empty without. */
export function publisher(model: Model): string {
  const slash = model.id.lastIndexOf('/');
  return slash > 0 && !model.id.startsWith('/') ? model.id.slice(0, slash) : '';
}

/** Contexts that a person may ask about; 0: what each would be opened with. */
export const contexts = [0, 8192, 32768, 65536, 131072, 262144];

/** 32768 → "32K", which is how people speak of contexts. */
export function contextText(tokens: number): string {
  return tokens % 1024 === 0 && tokens >= 1024 ? `${tokens / 1024}K` : String(tokens);
}

/** The ways to keep keys and values that a person can choose from, as settings have them. */
export const kvFormats: { label: string; kvFormat: string; kvBits: string }[] = [
  { label: 'Default: 8-bit keys, 4-bit values', kvFormat: '', kvBits: '' },
  { label: '8-bit', kvFormat: 'affine', kvBits: '(8, 8)' },
  { label: '4-bit', kvFormat: 'affine', kvBits: '(4, 4)' },
  { label: 'q8_0', kvFormat: 'q8_0', kvBits: '' },
  { label: 'q4_0', kvFormat: 'q4_0', kvBits: '' },
  { label: '16-bit, exact', kvFormat: 'f16', kvBits: '' },
];
