// sums[r] = sum of row r. Grid: a threadgroup per row. A thread adds up the vectors of four columns
// at tid, tid + threads, and so on. The order of the sum depends on the number of threads alone,
// which depends on the width.
#include <metal_stdlib>
#include "common/reduce.h"
using namespace metal;

struct ReadParams {
  uint vectors;  // of a row
  uint sums_stride;
};

kernel void read(
    constant ReadParams& p  [[buffer(0)]],
    device const float4* x  [[buffer(1)]],   // [M, vectors]
    device float* sums      [[buffer(2)]],   // [M]
    uint row                [[threadgroup_position_in_grid]],
    uint tid                [[thread_index_in_threadgroup]],
    uint threads            [[threads_per_threadgroup]],
    uint lane               [[thread_index_in_simdgroup]],
    uint sg                 [[simdgroup_index_in_threadgroup]],
    uint simdgroups         [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  x += ulong(row) * p.vectors;
  float4 a = float4(0.0f);
  float4 b = float4(0.0f);
  uint i = tid;
  for (; i + threads < p.vectors; i += 2 * threads) {  // two sums, so that two loads overlap
    a += x[i];
    b += x[i + threads];
  }
  if (i < p.vectors) {
    a += x[i];
  }
  a += b;
  const float sum = sum_over_threadgroup((a.x + a.y) + (a.z + a.w), partial, lane, sg, simdgroups);
  if (tid == 0) {
    sums[ulong(row) * p.sums_stride] = sum;
  }
}
