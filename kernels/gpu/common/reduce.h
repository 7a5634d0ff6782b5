// Sums over a threadgroup, in an order that depends only on the number of threads.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Returns the sum of v over the threadgroup, with the same bits in every thread. partial has one
// element per simdgroup. lane is the thread's index in simdgroup sg, one of simdgroups. All threads
// must call it. partial may be reused only after a barrier.
inline float sum_over_threadgroup(float v, threadgroup float* partial, uint lane, uint sg,
                                  uint simdgroups) {
  const float s = simd_sum(v);
  if (lane == 0) {
    partial[sg] = s;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return simd_sum(lane < simdgroups ? partial[lane] : 0.0f);
}
