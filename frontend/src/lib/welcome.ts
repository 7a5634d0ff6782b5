// Describes how large a model may be, for a person who has not chosen one yet. This is an estimate;
// the exact need follows from the model's files.

/** At 4 bits: the bits themselves, and a scale and a bias of 16 bits for each group of 64. */
const bytesPerParameter = (4 + 32 / 64) / 8;
/** The share of the memory for weights; the rest is for a conversation and scratch. */
const weightsShare = 0.85;

export function largestParameters(roomBytes: number): number {
  return Math.max(0, (roomBytes * weightsShare) / bytesPerParameter);
}
