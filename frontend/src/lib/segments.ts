// What each part of the headroom bar is called and what it means, in drawing order.
//
// The colours are fixed everywhere: --seg-<kind> in styles/tokens.css.
import type { Segment, SegmentKind, Source } from './backend/types';

interface SegmentText {
  label: string;
  /** One line for whoever points at it. */
  meaning: string;
}

export const segmentTexts: Record<SegmentKind, SegmentText> = {
  weights: { label: 'Weights', meaning: 'The model itself, as loaded from its files.' },
  kv_used: {
    label: 'KV in use',
    meaning: 'KV cache of the running requests: keys and values of the tokens processed so far.',
  },
  kv_cached: {
    label: 'KV cached',
    meaning: 'KV cache stored or reserved, so that a prompt prefix need not be computed again.',
  },
  state: {
    label: 'Recurrent state',
    meaning: 'The fixed-size memory of layers that do not keep every token.',
  },
  scratch: { label: 'Scratch', meaning: 'Room for the intermediate results of one step.' },
  headroom: { label: 'Headroom itself', meaning: 'Server, menu bar and window.' },
  other: { label: 'Other apps', meaning: 'Everything else on this computer, the system included.' },
  free: { label: 'Free', meaning: 'Available at once, without closing anything.' },
};

/** The order from left to right. */
export const segmentOrder = Object.keys(segmentTexts) as SegmentKind[];

const sourceTexts: Record<Source, string> = {
  measured: 'Measured by Headroom.',
  reported: 'Reported by the system.',
  estimated: 'Estimated.',
};

export function sourceText(source: Source): string {
  return sourceTexts[source] ?? '';
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
