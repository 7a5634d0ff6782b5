// The geometry of the curves of a training: points in a box, ticks, and the rows of the table.
import type { TrainingLosses } from './backend/trainings';

export type Loss = TrainingLosses['train'][number];

/** The range of the losses, and the iterations from 0 to the end. */
export interface Range {
  least: number;
  most: number;
  end: number;
}

/** null: there are no losses. */
export function rangeOf({ train, valid }: TrainingLosses, iterations: number): Range | null {
  const all = [...train, ...valid];
  if (all.length === 0) return null;
  let [least, most, end] = [Infinity, -Infinity, iterations];
  for (const { loss, iteration } of all) {
    least = Math.min(least, loss);
    most = Math.max(most, loss);
    end = Math.max(end, iteration);
  }
  const margin = Math.max((most - least) * 0.08, 0.01);
  return { least: Math.max(0, least - margin), most: most + margin, end: Math.max(end, 1) };
}

/** The points of a curve in a box of that size, for an SVG polyline. */
export function pointsOf(curve: readonly Loss[], range: Range, width: number, height: number) {
  return curve.map(({ iteration, loss }) => ({
    x: (iteration / range.end) * width,
    y: ((range.most - loss) / (range.most - range.least)) * height,
  }));
}

export const polyline = (points: readonly { x: number; y: number }[]) =>
  points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');

/** A line of the table; a missing loss is null. */
export interface Row {
  iteration: number;
  train: number | null;
  valid: number | null;
}

/** The losses by iteration, at most `most` rows: those with a validation stay. */
export function rowsOf({ train, valid }: TrainingLosses, most = 40): Row[] {
  const rows = new Map<number, Row>();
  const row = (iteration: number) => {
    const found = rows.get(iteration) ?? { iteration, train: null, valid: null };
    rows.set(iteration, found);
    return found;
  };
  const every = Math.max(1, Math.ceil(train.length / Math.max(1, most - valid.length)));
  const kept = new Set(valid.map(({ iteration }) => iteration));
  train.forEach(({ iteration, loss }, index) => {
    const last = index === train.length - 1;
    if (index % every === 0 || last || kept.has(iteration)) row(iteration).train = loss;
  });
  for (const { iteration, loss } of valid) row(iteration).valid = loss;
  return [...rows.values()].toSorted((a, b) => a.iteration - b.iteration);
}

/** The point with the least loss. */
export const leastOf = (curve: readonly Loss[]) =>
  curve.reduce<Loss | null>((best, one) => (best && best.loss <= one.loss ? best : one), null);
