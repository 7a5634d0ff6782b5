// out[m][j] = x[m][order[j]].
//
// Grid: x is a block of columns, y is the row m. A thread copies one element.
#include <metal_stdlib>
using namespace metal;

struct ColumnsParams {
  uint cols;
  uint x_stride;
  uint out_stride;
};

kernel void columns(
    constant ColumnsParams& p    [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [M, cols]
    device const int* order      [[buffer(2)]],   // [cols], each in [0, cols)
    device float* out            [[buffer(3)]],   // [M, cols]
    uint2 group                  [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]]) {
  const uint c = group.x * threads + tid;
  if (c < p.cols) {
    out[ulong(group.y) * p.out_stride + c] = x[ulong(group.y) * p.x_stride + uint(order[c])];
  }
}
