// Adds biases to logits, and then applies penalties to those of recent tokens. A threadgroup has
// one row, a thread one token at a time. The last token of a row may be known only to the device,
// which reads it from chosen. It may be in the list of recent tokens or not.
#include <metal_stdlib>
using namespace metal;

struct AdjustParams {
  uint vocab;
  uint logits_stride;
  uint chosen_stride;
};

// The header of a row in the table. The recent tokens with their counts start at index from of the
// table. The biased tokens with their biases follow.
struct Adjustment {
  int from;
  int recent;
  int biased;
  int chosen;  // row of chosen that holds the last token, -1 if the list is complete
  int repetition;
  int presence;
  int frequency;
  int unused;
};

inline void penalize_token(device float* logits, uint vocab, int token, int count, float repetition,
    float presence, float frequency) {
  if (token < 0 || uint(token) >= vocab) {
    return;
  }
  float x = logits[token];
  if (repetition != 0.0f && repetition != 1.0f) {
    x = x < 0.0f ? x * repetition : x / repetition;
  }
  x = x - presence;
  logits[token] = x - frequency * float(count);
}

kernel void adjust(
    constant AdjustParams& p     [[buffer(0)]],
    device const int* table      [[buffer(1)]],   // [M] Adjustment, then the lists
    device const int* chosen     [[buffer(2)]],   // [N, 1], or none
    device float* logits         [[buffer(3)]],   // [M, vocab]
    uint row                     [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]]) {
  device const Adjustment* h = (device const Adjustment*)table + row;
  device const int* list = table + h->from;
  const uint recent = uint(h->recent);
  const float repetition = as_type<float>(h->repetition);
  const float presence = as_type<float>(h->presence);
  const float frequency = as_type<float>(h->frequency);
  logits += ulong(row) * p.logits_stride;
  const uint biased = uint(h->biased);
  for (uint i = tid; i < biased; i += threads) {
    const int token = list[2 * (recent + i)];
    if (token >= 0 && uint(token) < p.vocab) {
      logits[token] += as_type<float>(list[2 * (recent + i) + 1]);
    }
  }
  threadgroup_barrier(mem_flags::mem_device);
  const int last = h->chosen < 0 ? -1 : chosen[ulong(h->chosen) * p.chosen_stride];
  for (uint i = tid; i < recent; i += threads) {
    const int token = list[2 * i];
    penalize_token(logits, p.vocab, token, list[2 * i + 1] + (token == last ? 1 : 0), repetition,
        presence, frequency);
  }
  if (tid == 0) {
    bool known = false;
    for (uint i = 0; i < recent; i++) {
      known = known || list[2 * i] == last;
    }
    if (!known) {
      penalize_token(logits, p.vocab, last, 1, repetition, presence, frequency);
    }
  }
}
