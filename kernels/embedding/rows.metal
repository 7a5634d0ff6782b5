// out[i] = x[indices[i]], or out[targets[i]] = x[indices[i]].
//
// Grid: x is a block of columns, y is i. A thread copies one element, because rows may have
// any alignment.
#include <metal_stdlib>
using namespace metal;

struct RowsParams {
  uint cols;
  uint x_stride;
  uint out_stride;
  uint targeted;  // 0 or 1
};

kernel void rows(
    constant RowsParams& p       [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [M, cols]
    device const int* indices    [[buffer(2)]],   // each in [0, M)
    device const int* targets    [[buffer(3)]],   // as many rows of out; if not targeted, not read
    device float* out            [[buffer(4)]],
    uint2 group                  [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]]) {
  const uint c = group.x * threads + tid;
  if (c < p.cols) {
    const uint row = p.targeted != 0 ? uint(targets[group.y]) : group.y;
    out[ulong(row) * p.out_stride + c] = x[ulong(indices[group.y]) * p.x_stride + c];
  }
}
