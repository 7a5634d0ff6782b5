// Chooses the experts of a token: a softmax over its logits, or their sigmoids, then the largest
// scores one after the other, the lower expert first among equals. Grid: a simdgroup per token.
// Lane l holds experts l, l + 32, ... in registers, so the order of the sum depends on the number
// of experts alone. Where the softmax is NaN, so are the weights, and the experts are 0, 1, 2, ...,
// because ids index memory.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct RouteParams {
  uint rows;
  uint experts;  // at most 512
  uint logits_stride;
  uint chosen;   // at most 16
  uint normalize;
  uint scaled;   // scale is an operand
  uint sigmoid;
  uint biased;   // bias is an operand
  uint groups;   // at most 32, or 0 for none
  uint top_groups;
  float epsilon;
};

constant constexpr uint HELD = 16;  // experts of a lane
constant constexpr uint NONE = 0xffffffffu;
constant constexpr float LEAST_SCORE = -1e38f;  // of an expert, also in place of NaN
constant constexpr float NO_SCORE = -2e38f;     // of what is no expert, is in no chosen
                                                // group, or has been chosen

// Writes the probabilities of a lane's experts to v and the largest logit to largest, and returns
// the sum of all exponentials.
inline float softmax(thread float* v, thread float& largest, device const float* logits,
                     uint experts, uint lane) {
  largest = -FLT_MAX;
  for (uint i = 0; i < HELD; i++) {
    const uint e = lane + 32 * i;
    v[i] = e < experts ? logits[e] : 0.0f;
    if (e < experts && v[i] > largest) {
      largest = v[i];
    }
  }
  largest = simd_max(largest);
  float sum = 0.0f;
  for (uint i = 0; i < HELD; i++) {
    if (lane + 32 * i < experts) {
      v[i] = exp_portable(v[i] - largest);
      sum += v[i];
    }
  }
  sum = simd_sum(sum);
  for (uint i = 0; i < HELD; i++) {
    v[i] = lane + 32 * i < experts ? v[i] / sum : NO_SCORE;
  }
  return sum;
}

// Gives NO_SCORE to a lane's experts v outside the best groups. Lane g holds the score of group g.
inline void limit(thread float* v, constant RouteParams& p, uint lane) {
  const uint size = p.experts / p.groups;
  float mine = -FLT_MAX;
  for (uint g = 0; g < p.groups; g++) {
    float first = NO_SCORE;
    uint expert = NONE;
    for (uint i = 0; i < HELD; i++) {
      const uint e = lane + 32 * i;
      if (e / size == g && v[i] > first) {
        first = v[i];
        expert = e;
      }
    }
    const float top = simd_max(first);
    float score = top;
    if (p.sigmoid != 0) {
      const uint winner = simd_min(first == top ? expert : NONE);
      float second = NO_SCORE;
      for (uint i = 0; i < HELD; i++) {
        const uint e = lane + 32 * i;
        if (e / size == g && e != winner && v[i] > second) {
          second = v[i];
        }
      }
      score += simd_max(second);
    }
    if (lane == g) {
      mine = score;
    }
  }
  uint chosen = 0;  // a bit for each group
  for (uint j = 0; j < p.top_groups; j++) {
    const float top = simd_max(mine);
    const uint winner = simd_min(lane < p.groups && mine == top ? lane : NONE);
    chosen |= 1u << winner;
    if (lane == winner) {
      mine = -FLT_MAX;
    }
  }
  for (uint i = 0; i < HELD; i++) {
    const uint e = lane + 32 * i;
    if (e < p.experts && (chosen >> (e / size) & 1u) == 0) {
      v[i] = NO_SCORE;
    }
  }
}

kernel void route(
    constant RouteParams& p     [[buffer(0)]],
    device const float* logits  [[buffer(1)]],   // [M, experts]
    device const float* scale   [[buffer(2)]],   // [experts], if scaled
    device const float* bias    [[buffer(3)]],   // [experts], if biased
    device int* ids             [[buffer(4)]],   // [M, chosen]
    device float* weights       [[buffer(5)]],   // [M, chosen]
    uint group                  [[threadgroup_position_in_grid]],
    uint lane                   [[thread_index_in_simdgroup]],
    uint sg                     [[simdgroup_index_in_threadgroup]],
    uint simdgroups             [[simdgroups_per_threadgroup]]) {
  const ulong row = ulong(group) * simdgroups + sg;
  if (row >= p.rows) {
    return;  // a whole simdgroup, and there is no barrier
  }
  logits += row * p.logits_stride;

  float v[HELD];
  float sum = 0.0f;
  float largest = 0.0f;
  if (p.sigmoid != 0) {
    for (uint i = 0; i < HELD; i++) {
      const uint e = lane + 32 * i;
      v[i] = NO_SCORE;
      if (e < p.experts) {
        const float score = sigmoid(logits[e]) + (p.biased != 0 ? bias[e] : 0.0f);
        v[i] = score > LEAST_SCORE ? score : LEAST_SCORE;
      }
    }
  } else {
    sum = softmax(v, largest, logits, p.experts, lane);
    for (uint i = 0; i < HELD; i++) {
      const uint e = lane + 32 * i;
      if (p.biased != 0 && e < p.experts) {
        const float score = v[i] + bias[e];
        v[i] = score > LEAST_SCORE ? score : LEAST_SCORE;
      }
    }
  }

  uint id = lane;  // lane j holds choice j
  float weight = sum;
  float total = sum;
  if (!isnan(sum)) {  // the same in all lanes
    total = 0.0f;
    if (p.groups != 0) {
      limit(v, p, lane);
    }
    for (uint j = 0; j < p.chosen; j++) {
      float best = NO_SCORE;
      uint expert = NONE;
      for (uint i = 0; i < HELD; i++) {
        if (v[i] > best) {
          best = v[i];
          expert = lane + 32 * i;
        }
      }
      const float top = simd_max(best);
      const uint winner = simd_min(best == top ? expert : NONE);
      float chosen = top;
      if (p.sigmoid != 0) {
        chosen = sigmoid(logits[winner]);
      } else if (p.biased != 0) {
        chosen = exp_portable(logits[winner] - largest) / sum;
      }
      for (uint i = 0; i < HELD; i++) {
        if (lane + 32 * i == winner) {
          v[i] = NO_SCORE;
        }
      }
      if (lane == j) {
        id = winner;
        weight = chosen;
      }
      total += chosen;
    }
  }
  if (lane < p.chosen) {
    ids[row * p.chosen + lane] = int(id);
    weight = p.normalize != 0 ? weight / (total + p.epsilon) : weight;
    weights[row * p.chosen + lane] = p.scaled != 0 ? weight * scale[id] : weight;
  }
}
