// The parts of the headroom bar, in drawing order.
//
// Their colours are fixed everywhere: --seg-<kind> in styles/tokens.css.
import { segments as texts, sources } from '../strings/shared';
import type { Segment, SegmentKind, Source } from './backend/types';

/** The label of each part, and the explanation in its tooltip. */
export const segmentTexts: Record<SegmentKind, { label: string; meaning: string }> = texts;

/** The order from left to right. */
export const segmentOrder = Object.keys(segmentTexts) as SegmentKind[];

export function sourceText(source: Source): string {
  return sources[source] ?? '';
}

/** Known segments in drawing order, each kind once, without negative sizes. */
export function orderedSegments(segments: readonly Segment[]): Segment[] {
  const sums = new Map<SegmentKind, Segment>();
  for (const segment of segments) {
    if (!(segment.kind in segmentTexts)) continue;
    const bytes = Math.max(0, segment.bytes);
    const earlier = sums.get(segment.kind);
    sums.set(
      segment.kind,
      earlier ? { ...earlier, bytes: earlier.bytes + bytes } : { ...segment, bytes },
    );
  }
  return segmentOrder.flatMap((kind) => sums.get(kind) ?? []);
}
