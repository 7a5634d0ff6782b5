// out = x / sqrt(mean(x^2) + eps) * weight * silu(gate).
//
// Grid: a simdgroup computes one row, which is a value head of linear attention with about 128
// columns. A lane has columns lane, lane + 32, ..., so the order of the sum depends only on the
// width. A lane reads only columns that it also writes, so out may be x or gate.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct GatedRMSNormParams {
  uint rows;
  uint cols;
  uint x_stride;
  uint gate_stride;
  uint out_stride;
  float eps;
};

kernel void gated_rms_norm(
    constant GatedRMSNormParams& p  [[buffer(0)]],
    device const float* x           [[buffer(1)]],   // [R, cols]
    device const float* gate        [[buffer(2)]],   // [R, cols]
    device const float* weight      [[buffer(3)]],   // [cols]
    device float* out               [[buffer(4)]],   // [R, cols]
    uint group                      [[threadgroup_position_in_grid]],
    uint lane                       [[thread_index_in_simdgroup]],
    uint sg                         [[simdgroup_index_in_threadgroup]],
    uint simdgroups                 [[simdgroups_per_threadgroup]]) {
  const ulong row = ulong(group) * simdgroups + sg;
  if (row >= p.rows) {
    return;  // the whole simdgroup returns, and there is no barrier
  }
  x += row * p.x_stride;
  gate += row * p.gate_stride;
  out += row * p.out_stride;

  float squares = 0.0f;
  for (uint c = lane; c < p.cols; c += 32) {
    squares = fma(x[c], x[c], squares);
  }
  const float scale = 1.0f / sqrt(simd_sum(squares) / float(p.cols) + p.eps);
  for (uint c = lane; c < p.cols; c += 32) {
    out[c] = x[c] * scale * weight[c] * silu(gate[c]);
  }
}
