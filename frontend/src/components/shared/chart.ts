// The arithmetic of the small charts, free of drawing.

export interface Point {
  /** Milliseconds since 1970. */
  at: number;
  value: number;
}

/** Maps from [a, b] to [from, to]; everything to `from` when the range is empty. */
export function scaleLinear(a: number, b: number, from: number, to: number): (value: number) => number {
  const slope = b === a ? 0 : (to - from) / (b - a);
  return (value) => from + (value - a) * slope;
}

/** Points in runs without a pause longer than gapMs. */
export function segmentsOf(points: readonly Point[], gapMs: number): Point[][] {
  const runs: Point[][] = [];
  let last: Point | null = null;
  for (const point of points) {
    if (!last || point.at - last.at > gapMs) runs.push([]);
    runs[runs.length - 1]!.push(point);
    last = point;
  }
  return runs;
}

const GiB = 2 ** 30;

/** The same for memory: 128, 256, 512 MB, then as roundUp does in GB (of 2^30 bytes). */
export function roundUpBytes(bytes: number): number {
  if (bytes > GiB) return roundUp(bytes / GiB, 1) * GiB;
  return [GiB / 8, GiB / 4, GiB / 2].find((top) => top >= bytes) ?? GiB;
}

const steps = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** The next round number, so that at least half of the scale is used: 0 → least, 130 → 150. */
export function roundUp(value: number, least: number): number {
  if (!(value > least)) return least;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * (steps.find((step) => step * power >= value) ?? 10);
}
