// The arithmetic of the small charts.

/** One line of a chart. */
export interface Series {
  /** Names the line in the sentence of a screen reader. */
  label: string;
  /** One value for each point in time. */
  values: readonly number[];
  format: (value: number) => string;
  /** Rounds the greatest value up to the top of the line's scale. */
  top: (greatest: number) => number;
  /** The name of a colour in tokens.css: "--seg-weights". */
  colour: string;
}

/** The data of uPlot: the times, then the values of each line. */
export type Columns = [number[], ...(number | null)[][]];

/** Inserts an empty row into each gap longer than `gap`, so that the lines break there. */
export function withGaps(
  at: readonly number[],
  lines: readonly (readonly number[])[],
  gap: number,
): Columns {
  const times: number[] = [];
  const values = lines.map((): (number | null)[] => []);
  at.forEach((time, row) => {
    const before = at[row - 1];
    if (before !== undefined && time - before > gap) {
      times.push((before + time) / 2);
      for (const column of values) column.push(null);
    }
    times.push(time);
    lines.forEach((line, index) => values[index]!.push(line[row] ?? null));
  });
  return [times, ...values];
}

const GiB = 2 ** 30;

/** Rounds a size up to 128, 256 or 512 MB; above, as roundUp does, in GB (of 2^30 bytes). */
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
