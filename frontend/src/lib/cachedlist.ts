// The list of cached conversations: filtered, sorted, and laid out as a treemap. Pure functions,
// fast for 10,000 rows.
import { cacheMap, privateTitle } from '../strings/cache';
import type { Conversation } from './backend/types';
import { squarify, type Rect } from './treemap';

/** A conversation with values for lists. */
export interface Row {
  /** Unique in its list: the key, or a generated id for a conversation in memory only. */
  id: string;
  /** The text that a filter searches, in lower case. */
  words: string;
  /** When it was last reused, or else written; 0 for a conversation in memory only. */
  usedAt: number;
  conversation: Conversation;
}

export type Column = 'title' | 'tokens' | 'bytes' | 'used' | 'hits' | 'saved';
export interface Order {
  column: Column;
  /** Greatest first; for titles from Z to A. */
  down: boolean;
}

export function rowsOf(conversations: readonly Conversation[]): Row[] {
  return conversations.map((one, index) => {
    const conversation = one.private ? { ...one, title: privateTitle } : one;
    return {
      id: conversation.key || `memory-${index}`,
      words: `${conversation.title} ${conversation.model} ${conversation.format}`.toLowerCase(),
      usedAt: Math.max(conversation.lastHitAt, conversation.createdAt),
      conversation,
    };
  });
}

/** The rows that contain every word of the filter. */
export function filtered(rows: readonly Row[], filter: string): Row[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return wanted.length === 0
    ? [...rows]
    : rows.filter((row) => wanted.every((word) => row.words.includes(word)));
}

const numbers: Record<Exclude<Column, 'title'>, (row: Row) => number> = {
  tokens: (row) => row.conversation.tokens,
  bytes: (row) => row.conversation.bytes,
  used: (row) => row.usedAt,
  hits: (row) => row.conversation.hits,
  saved: (row) => row.conversation.secondsSaved,
};
const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

/** Sorts stably: equal rows stay in the order of the server, which is by use. */
export function sorted(rows: readonly Row[], { column, down }: Order): Row[] {
  const sign = down ? -1 : 1;
  if (column === 'title')
    return rows.toSorted(
      (a, b) => sign * collator.compare(a.conversation.title, b.conversation.title),
    );
  const value = numbers[column];
  return rows.toSorted((a, b) => sign * (value(a) - value(b)));
}

const dayMs = 86_400_000;

/** The shade of an age: 0 to 3 for the last 24 hours, 7 days, 30 days, or longer ago. */
export function ageOf(usedAt: number, now: number): number {
  const days = (now - usedAt) / dayMs;
  return days < 1 ? 0 : days < 7 ? 1 : days < 30 ? 2 : 3;
}

export interface Cell {
  id: string;
  rect: Rect;
  title: string;
  bytes: number;
  /** The shade, from ageOf; null for a cell of several conversations. */
  age: number | null;
  /** The number of its conversations; 0 for shared prefixes. */
  count: number;
}

export interface Group {
  /** The model's fingerprint; '' for prefixes that conversations share. */
  id: string;
  name: string;
  bytes: number;
  rect: Rect;
  cells: Cell[];
}

/** The most conversations with a separate cell; smaller cells could not be seen. */
const mostCells = 160;
/** The height of a group's name above its cells, in pixels. */
export const groupHeader = 18;
const gap = 2;

/**
 * Lays out the treemap: a group for each model, with a cell for each conversation. Areas are
 * proportional to unshared bytes. The rest of `totalBytes`, the size of the cache, are prefixes
 * that several conversations share: they are a group without a model.
 */
export function treemap(
  rows: readonly Row[],
  totalBytes: number,
  room: Rect,
  now: number,
): Group[] {
  const models = new Map<string, { name: string; bytes: number; rows: Row[] }>();
  let own = 0;
  for (const row of rows) {
    const { fingerprint, model, bytes } = row.conversation;
    if (bytes <= 0) continue;
    own += bytes;
    const known = models.get(fingerprint) ?? { name: model, bytes: 0, rows: [] };
    known.bytes += bytes;
    known.rows.push(row);
    models.set(fingerprint, known);
  }
  const groups = [...models].map(([id, model]) => ({ id, ...model }));
  const shared = totalBytes - own;
  // A smaller difference is rounding, or the figures are not of the same moment.
  if (shared > 0.005 * totalBytes)
    groups.push({ id: '', name: cacheMap.shared, bytes: shared, rows: [] });
  groups.sort((a, b) => b.bytes - a.bytes);
  const rects = squarify(
    groups.map((group) => group.bytes),
    room,
  );
  return groups.map((group, i) => {
    const rect = rects[i]!;
    return {
      id: group.id,
      name: group.name,
      bytes: group.bytes,
      rect,
      cells: cellsOf(group, rect, own, now),
    };
  });
}

function cellsOf(
  group: { id: string; rows: Row[]; bytes: number; name: string },
  rect: Rect,
  own: number,
  now: number,
): Cell[] {
  const inner = inside(rect);
  if (group.rows.length === 0)
    return [{ id: 'shared', rect: inner, title: '', bytes: group.bytes, age: null, count: 0 }];
  // Each model gets a number of cells in proportion to its bytes.
  const most = Math.max(1, Math.round((mostCells * group.bytes) / own));
  const single = largest(group.rows, group.rows.length <= most ? most : most - 1);
  const rest = group.rows.length - single.length;
  const cells: Omit<Cell, 'rect'>[] = single.map((row) => ({
    id: row.id,
    title: row.conversation.title,
    bytes: row.conversation.bytes,
    age: ageOf(row.usedAt, now),
    count: 1,
  }));
  if (rest > 0) {
    const shown = single.reduce((sum, row) => sum + row.conversation.bytes, 0);
    cells.push({
      id: `rest-${group.id}`,
      title: cacheMap.smaller(rest),
      bytes: group.bytes - shown,
      age: null,
      count: rest,
    });
  }
  const rects = squarify(
    cells.map((cell) => cell.bytes),
    inner,
  );
  return cells.map((cell, i) => ({ ...cell, rect: rects[i]! }));
}

/** The `most` largest rows, the largest first, in one pass: few of many rows are sorted. */
function largest(rows: readonly Row[], most: number): Row[] {
  const found: Row[] = [];
  for (const row of rows) {
    const { bytes } = row.conversation;
    if (found.length === most && !(bytes > (found.at(-1)?.conversation.bytes ?? Infinity)))
      continue;
    let from = 0;
    for (let to = found.length; from < to;) {
      const middle = (from + to) >> 1;
      if (found[middle]!.conversation.bytes >= bytes) from = middle + 1;
      else to = middle;
    }
    if (found.length === most) found.pop();
    found.splice(from, 0, row);
  }
  return found;
}

/** The part of a group's rectangle for its cells, below its name. */
function inside(rect: Rect): Rect {
  const head = named(rect) ? groupHeader : 0;
  return {
    x: rect.x,
    y: rect.y + head,
    width: Math.max(0, rect.width - gap),
    height: Math.max(0, rect.height - head - gap),
  };
}

/** Whether a group's name fits above its cells. */
export function named(rect: Rect): boolean {
  return rect.width >= 60 && rect.height >= 2 * groupHeader;
}
