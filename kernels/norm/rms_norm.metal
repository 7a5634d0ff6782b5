// out = x / sqrt(mean(x^2) + eps) * weight. With a residual, residual += x first, and the sum is
// normalized.
//
// Grid: a threadgroup computes one row. A thread has columns tid, tid + threads, ..., so the order
// of the sum depends only on the width. A thread reads only columns that it also writes, so out
// may be x.
#include <metal_stdlib>
#include "common/reduce.h"
using namespace metal;

struct RMSNormParams {
  uint cols;
  uint x_stride;
  uint residual_stride;
  uint out_stride;
  uint has_residual;
  float eps;
};

kernel void rms_norm(
    constant RMSNormParams& p    [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [M, cols]
    device float* residual       [[buffer(2)]],   // [M, cols], or none
    device const float* weight   [[buffer(3)]],   // [cols]
    device float* out            [[buffer(4)]],   // [M, cols]
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

  float squares = 0.0f;
  for (uint c = tid; c < p.cols; c += threads) {
    float v = x[c];
    if (add) {
      v += residual[c];
      residual[c] = v;
    }
    squares = fma(v, v, squares);
  }
  const float sum = sum_over_threadgroup(squares, partial, lane, sg, simdgroups);
  const float scale = 1.0f / sqrt(sum / float(p.cols) + p.eps);
  for (uint c = tid; c < p.cols; c += threads) {
    const float v = add ? residual[c] : x[c];
    out[c] = v * scale * weight[c];
  }
}
