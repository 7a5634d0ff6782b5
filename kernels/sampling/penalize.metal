// The logits of recent tokens, less likely: a threadgroup to a row, a thread to a token. The row's last token may be known to the device
// alone; then it is one of those in the list, or one more.
#include <metal_stdlib>
using namespace metal;

struct PenalizeParams {
  uint vocab;
  uint logits_stride;
  uint chosen_stride;
};

// The head of a row in the table; its tokens and counts are there from integer `from` on.
struct History {
  int from;
  int recent;
  int chosen;  // row of the last token, -1: the list has it
  int repetition;
  int presence;
  int frequency;
};

inline void penalize_token(device float* logits, uint vocab, int token, int count, float repetition, float presence, float frequency) {
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

kernel void penalize(
    constant PenalizeParams& p   [[buffer(0)]],
    device const int* table      [[buffer(1)]],   // M times History, then the lists
    device const int* chosen     [[buffer(2)]],   // [N, 1], or nothing
    device float* logits         [[buffer(3)]],   // [M, vocab]
    uint row                     [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]]) {
  device const History* h = (device const History*)table + row;
  device const int* list = table + h->from;
  const uint recent = uint(h->recent);
  const float repetition = as_type<float>(h->repetition);
  const float presence = as_type<float>(h->presence);
  const float frequency = as_type<float>(h->frequency);
  logits += ulong(row) * p.logits_stride;
  const int last = h->chosen < 0 ? -1 : chosen[ulong(h->chosen) * p.chosen_stride];
  for (uint i = tid; i < recent; i += threads) {
    const int token = list[2 * i];
    penalize_token(logits, p.vocab, token, list[2 * i + 1] + (token == last ? 1 : 0), repetition, presence, frequency);
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
