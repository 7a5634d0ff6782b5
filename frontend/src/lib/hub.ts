// Models of the hub before they are downloaded: their families, and what is known of each. A family
// is a model in several quantizations, which MLX's converters publish as one repository each.
import { hub as t, verdicts } from '../strings/models';
import type { HubModel } from './backend/transfers';
import type { Fit, Model } from './backend/types';
import { tokensPerSecond } from './format';
import type { Tone } from './models';

export interface Family {
  /** "mlx-community/Qwen3-8B". */
  base: string;
  owner: string;
  name: string;
  /** The smallest first. */
  models: HubModel[];
  supported: boolean;
}

/** The last words of a name that say how the weights are packed, or by whom. */
const packing =
  /^(\d+(\.\d+)?-?bits?|bits?|bf16|f16|fp16|fp8|fp4|mxfp[48]|nvfp4|int[48]|q[2-8](_\w+)?|gs?\d+|gptq|awq|dwq|qat|mlx|v?\d{4,8})$/i;

/** A repository's name without its packing: "o/Qwen3-8B-4bit-DWQ" → "o/Qwen3-8B". */
export function baseOf(id: string): string {
  const slash = id.indexOf('/');
  const words = id.slice(slash + 1).split('-');
  while (words.length > 1 && packing.test(words.at(-1)!)) words.pop();
  return id.slice(0, slash + 1) + words.join('-');
}

/** The families in the order of their first models; those that Headroom cannot run come last. */
export function families(models: readonly HubModel[]): Family[] {
  const found = new Map<string, HubModel[]>();
  for (const model of models) {
    const base = baseOf(model.id);
    found.set(base, [...(found.get(base) ?? []), model]);
  }
  return [...found]
    .map(([base, members]): Family => {
      const slash = base.indexOf('/');
      return {
        base,
        owner: base.slice(0, Math.max(0, slash)),
        name: base.slice(slash + 1),
        models: members.toSorted(
          (a, b) => Number(!a.supported) - Number(!b.supported) || size(a) - size(b),
        ),
        supported: members.some(({ supported }) => supported),
      };
    })
    .toSorted((a, b) => Number(!a.supported) - Number(!b.supported));
}

const size = (model: HubModel) => model.sizeBytes || Number.MAX_SAFE_INTEGER;

/** How one model of a family differs from the others: "4-bit, group 64", or the end of its name. */
export function packingOf(model: HubModel): string {
  const rest = model.id.slice(baseOf(model.id).length + 1);
  return model.quantization || rest || t.original;
}

const tones: Record<Fit, Tone> = { yes: 'good', tight: 'tight', no: 'bad' };

/** Whether a model fits, in words; null: unknown. */
export function fitOf({ fits, needBytes }: Pick<HubModel, 'fits' | 'needBytes'>): {
  text: string;
  tone: Tone;
} | null {
  return needBytes > 0 ? { text: verdicts.fits[fits], tone: tones[fits] } : null;
}

/** An estimate has no more digits than it can mean: "0.4 tok/s", "8 tok/s", "120 tok/s". */
export function speedText(tokens: number): string {
  if (tokens < 3) return tokensPerSecond(tokens);
  const step = tokens < 20 ? 1 : tokens < 100 ? 5 : 10;
  return t.tokensPerSecond(String(Math.round(tokens / step) * step));
}

/** The model of the list that is this repository; undefined: it is not here. */
export function installed(models: readonly Model[], id: string): Model | undefined {
  const same = (other: string) => other.toLowerCase() === id.toLowerCase();
  return models.find(
    (model) => !model.bundled && (same(model.id) || model.places.some((place) => same(place.id))),
  );
}
