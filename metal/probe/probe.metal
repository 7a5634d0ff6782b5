// Small kernels whose results the host knows. Each tests one part of the binding (probe.go); the
// last one reports how the device rounds (numbers.go).
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

constant bool flag [[function_constant(0)]];
constant int shift [[function_constant(1)]];
constant uint mask [[function_constant(2)]];
constant float factor [[function_constant(3)]];

struct PlaceParams {
  uint width;   // threads of the grid in x
  uint height;
};

// The position of every thread in a three-dimensional grid.
kernel void place(
    constant PlaceParams& p [[buffer(0)]],
    // [depth, height, width, 4]: threadgroup x, y, z as bytes; thread in it; lane; simdgroup
    device uint* out        [[buffer(1)]],
    uint3 at                [[thread_position_in_grid]],
    uint3 group             [[threadgroup_position_in_grid]],
    uint tid                [[thread_index_in_threadgroup]],
    uint lane               [[thread_index_in_simdgroup]],
    uint sg                 [[simdgroup_index_in_threadgroup]]) {
  device uint* mine = out + ((at.z * p.height + at.y) * p.width + at.x) * 4;
  mine[0] = group.x | group.y << 8 | group.z << 16;
  mine[1] = tid;
  mine[2] = lane;
  mine[3] = sg;
}

struct EchoParams {
  uint a;
  int b;
  float c;
};

// Copies parameters, function constants and operands to out.
kernel void echo(
    constant EchoParams& p   [[buffer(0)]],
    device const float* x    [[buffer(1)]],   // one
    device const half* h     [[buffer(2)]],   // one
    device float* out        [[buffer(3)]],   // nine
    uint tid                 [[thread_position_in_grid]]) {
  if (tid == 0) {
    out[0] = float(p.a);
    out[1] = float(p.b);
    out[2] = p.c;
    out[3] = x[0];
    out[4] = float(h[0]);
    out[5] = flag ? 1.0f : 0.0f;
    out[6] = float(shift);
    out[7] = float(mask);
    out[8] = factor;
  }
}

struct CountParams {
  uint n;
};

// Does nothing, for timing: p.n is larger than any tid.
kernel void nothing(
    constant CountParams& p [[buffer(0)]],
    device uint* out        [[buffer(1)]],
    uint tid                [[thread_position_in_grid]]) {
  if (tid >= p.n) {
    out[tid] = 0;
  }
}

// out[i] = 3 x[n - 1 - i] + 1. A dispatch that runs too early reads old values.
kernel void step(
    constant CountParams& p [[buffer(0)]],
    device const uint* x    [[buffer(1)]],   // [n]
    device uint* out        [[buffer(2)]],   // [n]
    uint tid                [[thread_position_in_grid]]) {
  if (tid < p.n) {
    out[tid] = 3 * x[p.n - 1 - tid] + 1;
  }
}

// A threadgroup of n threads reverses its values through threadgroup memory, whose length the host
// sets.
kernel void turn(
    constant CountParams& p  [[buffer(0)]],
    device uint* x           [[buffer(1)]],   // [n]
    threadgroup uint* shared [[threadgroup(0)]],
    uint tid                 [[thread_index_in_threadgroup]]) {
  shared[tid] = x[tid];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[tid] = shared[p.n - 1 - tid];
}

// Simdgroup functions: sum, maximum, the neighbouring lane, one lane.
kernel void lanes(
    constant CountParams& p [[buffer(0)]],
    device const uint* x    [[buffer(1)]],   // [32]
    device uint* out        [[buffer(2)]],   // [32, 4]
    uint lane               [[thread_index_in_simdgroup]]) {
  const uint v = x[lane];
  device uint* mine = out + 4 * lane;
  mine[0] = simd_sum(v);
  mine[1] = simd_max(v);
  mine[2] = simd_shuffle_xor(v, 1);
  mine[3] = simd_shuffle(v, ushort(p.n));
}

// c = a b^T of 8x8 halves, in float, on the matrix units.
kernel void matrix(
    constant CountParams& p [[buffer(0)]],
    device const half* a    [[buffer(1)]],   // [8, 8]
    device const half* b    [[buffer(2)]],   // [8, 8]
    device float* c         [[buffer(3)]],   // [8, 8]
    uint lane               [[thread_index_in_simdgroup]]) {
  simdgroup_half8x8 ma;
  simdgroup_half8x8 mb;
  simdgroup_float8x8 mc = make_filled_simdgroup_matrix<float, 8, 8>(float(p.n));
  simdgroup_load(ma, a, 8);
  simdgroup_load(mb, b, 8, ulong2(0, 0), true);
  simdgroup_multiply_accumulate(mc, ma, mb, mc);
  simdgroup_store(mc, c, 8);
}

// How the device rounds; one thread for each value of x.
kernel void numbers(
    constant CountParams& p [[buffer(0)]],
    device const float* x   [[buffer(1)]],   // [n], as many as threads
    device float* out       [[buffer(2)]],   // [6, n]
    uint tid                [[thread_position_in_grid]]) {
  const float v = x[tid];
  out[tid] = v * v - 1.00048828125f;   // rounded once if it is contracted
  out[p.n + tid] = v * 0.5f;           // denormal if v is the smallest normal number
  out[2 * p.n + tid] = exp(v);
  out[3 * p.n + tid] = 1.0f / v;
  out[4 * p.n + tid] = sqrt(fabs(v));
  out[5 * p.n + tid] = simd_sum(v);
}
