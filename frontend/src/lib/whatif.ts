// The steps of the what-if panel's sliders. The server computes its figures.

const leastTokens = 2048;

/**
 * The contexts that the slider offers: powers of two from 2,048, and the longest trained context.
 */
export function contextSteps(trainedTokens: number): number[] {
  const steps: number[] = [];
  for (let tokens = leastTokens; tokens < trainedTokens; tokens *= 2) steps.push(tokens);
  return [...steps, Math.max(trainedTokens, 1)];
}

/** The step nearest to a context, by ratio. */
export function nearestStep(steps: readonly number[], tokens: number): number {
  const distance = (step: number) => Math.abs(Math.log(step / Math.max(tokens, 1)));
  return steps.reduce(
    (best, step, index) => (distance(step) < distance(steps[best]!) ? index : best),
    0,
  );
}

export const streamSteps = [1, 2, 4, 8, 16, 32];

/** Parses a typed limit, in GB of 2^30 bytes. Null if the text is not a number. */
export function parseGB(text: string): number | null {
  const typed = text
    .trim()
    .replace(/\s*gb$/i, '')
    .replaceAll(',', '');
  return /^\d+(\.\d+)?$/.test(typed) ? Math.round(Number(typed) * 1024) * 2 ** 20 : null;
}
