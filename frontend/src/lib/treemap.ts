// Squarified treemaps (Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000): rectangles
// whose areas are in proportion to values, as near to squares as a greedy layout gets.

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/**
 * Lays values out in a rectangle, in their order; the largest first gives the best shapes.
 * Returns one rectangle for each value. The rectangle of a value of 0 or less has no area.
 * The rectangles do not overlap and fill `within`; they have its units.
 */
export function squarify(values: readonly number[], within: Rect): Rect[] {
  const sum = values.reduce((all, value) => all + Math.max(0, value), 0);
  const placed: Rect[] = values.map(() => ({ x: within.x, y: within.y, width: 0, height: 0 }));
  if (!(sum > 0) || within.width <= 0 || within.height <= 0) return placed;
  const areas = values.map((value) => (Math.max(0, value) / sum) * within.width * within.height);

  let room = { ...within };
  let from = 0;
  while (from < areas.length) {
    const side = Math.min(room.width, room.height);
    let to = from + 1;
    let rowArea = areas[from]!;
    while (
      to < areas.length &&
      worst(areas, from, to + 1, rowArea + areas[to]!, side) <=
        worst(areas, from, to, rowArea, side)
    ) {
      rowArea += areas[to++]!;
    }
    room = placeRow(areas, placed, from, to, rowArea, room, to === areas.length);
    from = to;
  }
  return placed;
}

/** The longest side ratio in the row [from, to) along a side of the given length. */
function worst(
  areas: readonly number[],
  from: number,
  to: number,
  rowArea: number,
  side: number,
): number {
  let most = 0;
  let least = Infinity;
  for (let i = from; i < to; i++) {
    most = Math.max(most, areas[i]!);
    least = Math.min(least, areas[i]!);
  }
  if (least <= 0) return Infinity;
  const square = side * side;
  return Math.max((square * most) / (rowArea * rowArea), (rowArea * rowArea) / (square * least));
}

/** Places a row along the shorter side and returns the remaining rectangle. */
function placeRow(
  areas: readonly number[],
  placed: Rect[],
  from: number,
  to: number,
  rowArea: number,
  room: Rect,
  last: boolean,
): Rect {
  const upright = room.width >= room.height;
  const side = upright ? room.height : room.width;
  const most = upright ? room.width : room.height;
  // The last row takes the rest, so that rounding leaves no gap at the edge.
  const thick = last ? most : side > 0 ? Math.min(most, rowArea / side) : 0;
  let at = 0;
  for (let i = from; i < to; i++) {
    const length = rowArea > 0 ? (areas[i]! / rowArea) * side : 0;
    placed[i] = upright
      ? { x: room.x, y: room.y + at, width: thick, height: length }
      : { x: room.x + at, y: room.y, width: length, height: thick };
    at += length;
  }
  return upright
    ? { x: room.x + thick, y: room.y, width: Math.max(0, room.width - thick), height: room.height }
    : { x: room.x, y: room.y + thick, width: room.width, height: Math.max(0, room.height - thick) };
}
