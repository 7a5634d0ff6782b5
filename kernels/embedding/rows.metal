// out[i] = x[indices[i]].
//
// Grid: x is a block of columns, y is the row i. A thread copies one element, because rows may have
// any alignment.
#include <metal_stdlib>
using namespace metal;

struct RowsParams {
  uint cols;
  uint x_stride;
  uint out_stride;
};

kernel void rows(
    constant RowsParams& p       [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [M, cols]
    device const int* indices    [[buffer(2)]],   // one per row of out, each in [0, M)
    device float* out            [[buffer(3)]],
    uint2 group                  [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]]) {
  const uint c = group.x * threads + tid;
  if (c < p.cols) {
    out[ulong(group.y) * p.out_stride + c] = x[ulong(indices[group.y]) * p.x_stride + c];
  }
}
