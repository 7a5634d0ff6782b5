// Sums over a threadgroup, in an order that depends on the number of threads alone.
#pragma once
#include <metal_stdlib>
using namespace metal;

// The sum of v over the threadgroup, the same bits in every thread. partial has a place for each
// simdgroup; lane, sg and simdgroups are the thread's place. All threads must call it; partial may
// be used again only after a barrier.
inline float sum_over_threadgroup(float v, threadgroup float* partial, uint lane, uint sg, uint simdgroups) {
  const float s = simd_sum(v);
  if (lane == 0) {
    partial[sg] = s;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return simd_sum(lane < simdgroups ? partial[lane] : 0.0f);
}
