// Presets: named system prompts with sampling values. They are in this browser's storage.
import { samplingFrom, type Sampling } from './sampling';

export interface Preset {
  name: string;
  prompt: string;
  sampling: Sampling;
}

/** Reads stored presets. Invalid ones are left out. */
export function presetsFrom(raw: unknown): Preset[] {
  if (!Array.isArray(raw)) return [];
  return raw.flatMap((one: unknown) => {
    const { name, prompt, sampling } = (one ?? {}) as Record<string, unknown>;
    if (typeof name !== 'string' || name === '' || typeof prompt !== 'string') return [];
    return [{ name, prompt, sampling: samplingFrom(sampling) }];
  });
}

/** The presets with one added or replaced, by name. */
export function withPreset(presets: readonly Preset[], preset: Preset): Preset[] {
  return [...presets.filter(({ name }) => name !== preset.name), preset].toSorted((a, b) =>
    a.name.localeCompare(b.name),
  );
}
