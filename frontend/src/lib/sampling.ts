// Sampling settings, for one model (its settings) or for this window (the Chat page). A missing
// value means the default.

export interface Sampling {
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  seed?: number;
  maxTokens?: number;
}

export interface SamplingField {
  name: keyof Sampling;
  /** Its key in a request. */
  wire: string;
  from: number;
  to: number;
  whole: boolean;
}

/** The fields, with the ranges that engine/openai accepts. */
export const samplingFields: readonly SamplingField[] = [
  {
    name: 'temperature',
    wire: 'temperature',
    from: 0,
    to: 2,
    whole: false,
  },
  {
    name: 'topP',
    wire: 'top_p',
    from: 0,
    to: 1,
    whole: false,
  },
  {
    name: 'topK',
    wire: 'top_k',
    from: 0,
    to: 1e6,
    whole: true,
  },
  {
    name: 'minP',
    wire: 'min_p',
    from: 0,
    to: 1,
    whole: false,
  },
  {
    name: 'repetitionPenalty',
    wire: 'repetition_penalty',
    from: 0,
    to: 100,
    whole: false,
  },
  {
    name: 'presencePenalty',
    wire: 'presence_penalty',
    from: -2,
    to: 2,
    whole: false,
  },
  {
    name: 'frequencyPenalty',
    wire: 'frequency_penalty',
    from: -2,
    to: 2,
    whole: false,
  },
  {
    name: 'seed',
    wire: 'seed',
    from: 0,
    to: 2 ** 53 - 1,
    whole: true,
  },
  {
    name: 'maxTokens',
    wire: 'max_tokens',
    from: 1,
    to: 2 ** 31 - 1,
    whole: true,
  },
];

/** Parses what was typed: undefined for nothing, null for an invalid value. */
export function parsed(field: SamplingField, text: string): number | undefined | null {
  const plain = text.trim().replaceAll(',', field.whole ? '' : '.');
  if (plain === '') return undefined;
  const value = Number(plain);
  const fits =
    Number.isFinite(value) &&
    value >= field.from &&
    value <= field.to &&
    (!field.whole || Number.isInteger(value));
  return fits ? value : null;
}

/** Returns a copy with one value set, or removed if it is undefined. */
export function withValue<T extends Sampling>(
  sampling: T,
  name: keyof Sampling,
  value: number | undefined,
): T {
  const { [name]: _, ...rest } = sampling;
  return (value === undefined ? rest : { ...rest, [name]: value }) as T;
}

/** The values under their keys in a request. */
export function requestFields(sampling: Sampling): Record<string, number> {
  return Object.fromEntries(
    samplingFields.flatMap(({ name, wire }) =>
      sampling[name] === undefined ? [] : [[wire, sampling[name]]],
    ),
  );
}

/** Reads stored values. Invalid ones are left out. */
export function samplingFrom(raw: unknown): Sampling {
  const stored = typeof raw === 'object' && raw !== null ? (raw as Record<string, unknown>) : {};
  return Object.fromEntries(
    samplingFields.flatMap((field) => {
      const value = stored[field.name];
      return typeof value === 'number' && parsed(field, String(value)) === value
        ? [[field.name, value]]
        : [];
    }),
  );
}
