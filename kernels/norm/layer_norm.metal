// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias. With a residual, residual += x
// first, and the sum is normalized.
//
// Grid: a threadgroup computes one row. A thread has columns tid, tid + threads, ..., so the order
// of the sums depends only on the width. A thread reads only columns that it also writes, so out
// may be x or the residual.
#include <metal_stdlib>
#include "common/reduce.h"
using namespace metal;

struct LayerNormParams {
  uint cols;
  uint x_stride;
  uint residual_stride;
  uint out_stride;
  uint has_residual;
  uint has_bias;
  float eps;
};

kernel void layer_norm(
    constant LayerNormParams& p  [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [M, cols]
    device float* residual       [[buffer(2)]],   // [M, cols], or none
    device const float* weight   [[buffer(3)]],   // [cols]
    device const float* bias     [[buffer(4)]],   // [cols], or none
    device float* out            [[buffer(5)]],   // [M, cols]
    uint row                     [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  x += ulong(row) * p.x_stride;
  residual += ulong(row) * p.residual_stride;
  out += ulong(row) * p.out_stride;
  const bool add = p.has_residual != 0;

  float total = 0.0f;
  for (uint c = tid; c < p.cols; c += threads) {
    float v = x[c];
    if (add) {
      v += residual[c];
      residual[c] = v;
    }
    total += v;
  }
  const float mean = sum_over_threadgroup(total, partial, lane, sg, simdgroups) / float(p.cols);
  float squares = 0.0f;
  for (uint c = tid; c < p.cols; c += threads) {
    const float v = (add ? residual[c] : x[c]) - mean;
    squares = fma(v, v, squares);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float sum = sum_over_threadgroup(squares, partial, lane, sg, simdgroups);
  const float scale = 1.0f / sqrt(sum / float(p.cols) + p.eps);
  for (uint c = tid; c < p.cols; c += threads) {
    const float v = ((add ? residual[c] : x[c]) - mean) * scale;
    out[c] = fma(v, weight[c], p.has_bias != 0 ? bias[c] : 0.0f);
  }
}
