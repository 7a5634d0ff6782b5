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
  label: string;
  /** The request's own name for it. */
  wire: string;
  help: string;
  from: number;
  to: number;
  whole: boolean;
}

/** In the ranges of engine/openai. */
export const samplingFields: readonly SamplingField[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    wire: 'temperature',
    help: '0 always takes the likeliest token, 1 draws by probability.',
    from: 0,
    to: 2,
    whole: false,
  },
  {
    name: 'topP',
    label: 'Top-p',
    wire: 'top_p',
    help: 'Only the likeliest tokens that reach this probability together; 1: all.',
    from: 0,
    to: 1,
    whole: false,
  },
  {
    name: 'topK',
    label: 'Top-k',
    wire: 'top_k',
    help: 'Only so many of the likeliest tokens; 0: all.',
    from: 0,
    to: 1e6,
    whole: true,
  },
  {
    name: 'minP',
    label: 'Min-p',
    wire: 'min_p',
    help: 'Only tokens at least this likely, compared with the likeliest; 0: all.',
    from: 0,
    to: 1,
    whole: false,
  },
  {
    name: 'repetitionPenalty',
    label: 'Repetition penalty',
    wire: 'repetition_penalty',
    help: 'Over 1 makes recent tokens less likely; 1: off.',
    from: 0,
    to: 100,
    whole: false,
  },
  {
    name: 'presencePenalty',
    label: 'Presence penalty',
    wire: 'presence_penalty',
    help: 'Makes recent tokens less likely, once each; 0: off.',
    from: -2,
    to: 2,
    whole: false,
  },
  {
    name: 'frequencyPenalty',
    label: 'Frequency penalty',
    wire: 'frequency_penalty',
    help: 'Makes recent tokens less likely, as often as they came; 0: off.',
    from: -2,
    to: 2,
    whole: false,
  },
  {
    name: 'seed',
    label: 'Seed',
    wire: 'seed',
    help: 'The same number gives the same answer to the same question.',
    from: 0,
    to: 2 ** 53 - 1,
    whole: true,
  },
  {
    name: 'maxTokens',
    label: 'Longest answer, tokens',
    wire: 'max_tokens',
    help: 'Reasoning included. Empty: what the context leaves.',
    from: 1,
    to: 2 ** 31 - 1,
    whole: true,
  },
];

/** The number that was typed; undefined for nothing, null for what cannot be. */
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

/** The same with one value set or, for undefined, left out. */
export function withValue<T extends Sampling>(
  sampling: T,
  name: keyof Sampling,
  value: number | undefined,
): T {
  const { [name]: _, ...rest } = sampling;
  return (value === undefined ? rest : { ...rest, [name]: value }) as T;
}

/** As a request says it. */
export function requestFields(sampling: Sampling): Record<string, number> {
  return Object.fromEntries(
    samplingFields.flatMap(({ name, wire }) =>
      sampling[name] === undefined ? [] : [[wire, sampling[name]]],
    ),
  );
}

/** What was kept earlier, checked: anything may stand there. */
export function samplingFrom(raw: unknown): Sampling {
  const kept = typeof raw === 'object' && raw !== null ? (raw as Record<string, unknown>) : {};
  return Object.fromEntries(
    samplingFields.flatMap((field) => {
      const value = kept[field.name];
      return typeof value === 'number' && parsed(field, String(value)) === value
        ? [[field.name, value]]
        : [];
    }),
  );
}
