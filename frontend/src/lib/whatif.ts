// The what-if panel's arithmetic: the steps of its sliders, and the ledger with another model
// loaded.
import type { Memory, Segment, SegmentKind, WhatIfFormat } from './backend/types';
import { orderedSegments } from './segments';

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

/**
 * The ledger after loading. The engine's segments come from the plan, the others stay, and the rest
 * is free.
 */
export function plannedSegments(
  memory: Memory,
  plan: WhatIfFormat,
): { segments: Segment[]; totalBytes: number } {
  const planned: Partial<Record<SegmentKind, number>> = {
    weights: plan.weightsBytes,
    kv_used: plan.kvBytes,
    kv_cached: 0,
    state: plan.stateBytes,
    scratch: plan.scratchBytes,
  };
  const rest = orderedSegments(memory.segments).filter(
    ({ kind }) => kind === 'headroom' || kind === 'other',
  );
  const taken = plan.needBytes + rest.reduce((sum, { bytes }) => sum + bytes, 0);
  const own = Object.entries(planned).map(([kind, bytes]) => ({
    kind: kind as SegmentKind,
    bytes,
    source: 'estimated' as const,
  }));
  const free: Segment = {
    kind: 'free',
    bytes: Math.max(0, memory.totalBytes - taken),
    source: 'estimated',
  };
  return {
    segments: orderedSegments([...own, ...rest, free]),
    totalBytes: Math.max(memory.totalBytes, taken),
  };
}

/** Parses a typed limit, in GB of 2^30 bytes. Null if the text is not a number. */
export function parseGB(text: string): number | null {
  const typed = text
    .trim()
    .replace(/\s*gb$/i, '')
    .replaceAll(',', '');
  return /^\d+(\.\d+)?$/.test(typed) ? Math.round(Number(typed) * 1024) * 2 ** 20 : null;
}
