// The columns of VirtualTable, and the rows that it renders at a scroll position.

export interface TableColumn<Id extends string = string> {
  /** Also the class of the column's cells. */
  id: Id;
  label: string;
  /** The tooltip of the heading. */
  hint: string;
}

export interface TableOrder<Id extends string = string> {
  column: Id;
  /** Descending: greatest first, names from Z to A. */
  down: boolean;
}

/** Rows rendered above and below the visible ones, so that scrolling shows no gap. */
const overscan = 6;

/** The half-open range of rows to render in a scrolled list; heights are in pixels. */
export function visibleRows(
  count: number,
  rowHeight: number,
  scrollTop: number,
  height: number,
): { from: number; to: number } {
  const first = Math.floor(Math.max(0, scrollTop) / rowHeight);
  return {
    from: Math.max(0, Math.min(first, count) - overscan),
    to: Math.min(count, first + Math.ceil(height / rowHeight) + 1 + overscan),
  };
}
