// out = cap * tanh(x / cap), with the same operations and bits as soft_cap.c.
//
// Grid: a threadgroup computes a block of columns of one row, a thread one element. A thread reads
// only the element that it also writes, so out may be x.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct SoftCapParams {
  uint cols;
  uint x_stride;
  uint out_stride;
  float cap;
};

kernel void soft_cap(
    constant SoftCapParams& p [[buffer(0)]],
    device const float* x     [[buffer(1)]],   // [M, cols]
    device float* out         [[buffer(2)]],   // [M, cols]
    uint2 group               [[threadgroup_position_in_grid]],   // row, block of columns
    uint tid                  [[thread_index_in_threadgroup]],
    uint2 threads             [[threads_per_threadgroup]]) {
  const ulong row = group.x;
  const uint c = group.y * threads.x + tid;
  if (c < p.cols) {
    out[row * p.out_stride + c] =
        p.cap * tanh_portable(x[row * p.x_stride + c] * (1.0f / p.cap));
  }
}
