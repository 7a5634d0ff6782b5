// Decode: out = x wᵀ for up to eight rows of x at a time. Reading the weight dominates, and it is
// read once for all rows. Compiled once for each value of BITS, the size of the weight's codes.
// BITS is 0 for plain elements.
//
// GATED is the first half of a feed-forward layer, out = silu(x gateᵀ) * (x upᵀ). A band then has
// one row of each of the two weights instead of NR rows of one weight.
//
// A simdgroup computes 4 NR columns of out, or 4 if GATED. Its lanes are four bands of eight
// slices. A band has NR rows of the weight. Slice s computes units s, s + 8, ... of 32 elements.
// All bands use the same elements of x, and one instruction reads 128 bytes of a row of x. The
// eight units that the slices use pass through threadgroup memory, APART floats from one to the
// next. With a distance of 128 bytes, the slices' reads would conflict in the banks and take most
// of the time.
//
// A threadgroup has two simdgroups. The grid is [columns, groups of ROWS rows of x]. The last group
// repeats its last row. If a weight has few and long rows, both simdgroups compute the same rows:
// the first adds up chunks 0, 2, ... of eight units, and the second chunks 1, 3, ... These two
// parts of a sum are its shards.
//
// The order of sums is the same for every ROWS. A slice adds the products of elements 4i + j to
// accumulator j of four, in order of i, by fma. The accumulators are added as (0 + 1) + (2 + 3),
// then slices at distances of 1, 2 and 4, then shards.
#include <metal_stdlib>
#include "common/exp.h"
#include "common/linear.h"
#include "common/weight.h"
using namespace metal;

#ifndef BITS
#define BITS 4
#endif

constant constexpr int NR = 2;
constant constexpr uint UNIT = 32;
constant constexpr uint SLICES = 8;
constant constexpr uint SIMDGROUPS = 2;
constant constexpr uint STEP = SLICES * UNIT;   // elements of a chunk
// floats from one unit of x to the next in threadgroup memory
constant constexpr uint APART = UNIT + 4;

constant uint DTYPE [[function_constant(0)]];
constant bool ALIGNED [[function_constant(1)]];

// float4s of a row of x that a lane loads at a time
constant constexpr uint QUADS = SLICES * UNIT / 128;

// Loads a lane's float4s of x. `first` is the chunk's first element.
template <int ROWS>
inline void load_ahead(thread float4 (&ahead)[ROWS][QUADS], device const float* x,
                       thread const ulong (&rows)[ROWS], uint first, uint k, uint lane) {
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
#pragma clang loop unroll(full)
    for (uint h = 0; h < QUADS; h++) {
      const uint at = min(first + 4 * (32 * h + lane), k);
      ahead[m][h] = load_four(x + rows[m] + at, k - at, ALIGNED);
    }
  }
}

// Returns the sum of a column's eight slices.
inline float sum_of_slices(threadgroup const float* s) {
  const float4 a = *(threadgroup const float4*)s;
  const float4 b = *(threadgroup const float4*)(s + 4);
  return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
}

// Returns the sum of a column's shards, which begin `apart` floats after each other.
inline float sum_of_shards(threadgroup const float* s, uint apart, uint shards) {
  const float first = sum_of_slices(s);
  return shards == 1 ? first : first + sum_of_slices(s + apart);
}

template <int ROWS, bool GATED>
kernel void linear(
    constant LinearParams& p     [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [rows / per_input, k]
    device const uint* data      [[buffer(2)]],   // [some_experts n, k] packed
    device const uchar* scales   [[buffer(3)]],   // [some_experts n, k / group], or nothing
    device const uchar* biases   [[buffer(4)]],
    device const int* ids        [[buffer(5)]],   // [rows / choices, choices], or nothing
    device float* out            [[buffer(6)]],   // [rows, n]
    // GATED: the other weight, of the same format; else nothing
    device const uint* up_data   [[buffer(7)]],
    device const uchar* up_scales [[buffer(8)]],
    device const uchar* up_biases [[buffer(9)]],
    uint2 group                  [[threadgroup_position_in_grid]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]]) {
  const uint slice = lane % SLICES;
  const uint shard = sg % p.shards;
  const uint block = (group.x * simdgroups + sg) / p.shards;   // of columns
  const uint first = (block * (32 / SLICES) + lane / SLICES) * (GATED ? 1 : NR);
  const uint m0 = group.y * ROWS;

  ulong matrix = 0;
  if (p.experts != 0) { // ROWS is 1
    const int id = ids[m0 / p.choices * p.ids_stride + m0 % p.choices];
    if (id < 0 || uint(id) >= p.experts) {
      for (int r = 0; r < (GATED ? 1 : NR); r++) {
        if (slice == 0 && shard == 0 && first + r < p.n) {
          out[ulong(m0) * p.out_stride + first + r] = NAN;
        }
      }
      return;
    }
    const uint expert = uint(id) - p.first_expert;   // wraps around below the first
    if (expert >= p.some_experts) {
      return;   // another dispatch has the matrix
    }
    matrix = ulong(expert) * p.n;
  }

  ulong row[NR];
  for (int r = 0; r < NR; r++) {
    row[r] = matrix + min(first + (GATED ? 0 : r), p.n - 1);
  }
  ulong at_x[ROWS];
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
    at_x[m] = ulong(min(m0 + m, p.rows - 1) / p.per_input) * p.x_stride;
  }

  float4 sum[ROWS][NR];
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
    for (int r = 0; r < NR; r++) {
      sum[m][r] = float4(0.0f);
    }
  }
  threadgroup float held[SIMDGROUPS][ROWS][SLICES * APART];
  float4 ahead[ROWS][QUADS];   // of x: under way while the part before is used
  const uint step = p.shards * STEP;
  load_ahead<ROWS>(ahead, x, at_x, shard * STEP, p.k, lane);
  for (uint from = shard * STEP; from < p.k; from += step) {
    simdgroup_barrier(mem_flags::mem_threadgroup);   // what was there has been used
#pragma clang loop unroll(full)
    for (int m = 0; m < ROWS; m++) {
#pragma clang loop unroll(full)
      for (uint h = 0; h < QUADS; h++) {
        const uint i = 32 * h + lane;
        const uint place = i / (UNIT / 4) * APART + i % (UNIT / 4) * 4;
        *(threadgroup float4*)(held[sg][m] + place) = ahead[m][h];
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    load_ahead<ROWS>(ahead, x, at_x, from + step, p.k, lane);
    const uint unit = from / UNIT + slice;
    if (unit * UNIT >= p.k) {
      continue;
    }
#if BITS > 0
    Codes<BITS> codes[NR];
    Params params[NR];
    for (int r = 0; r < NR; r++) {
      if (GATED && r == 1) {
        codes[r] = load_codes<BITS>(up_data + row[r] * p.up_data_stride + unit * BITS, ALIGNED);
        params[r] = load_params<BITS>(up_scales, p.up_scales_first + row[r] * p.up_scales_stride,
                                      up_biases, p.up_biases_first + row[r] * p.up_biases_stride,
                                      unit, p.units_per_group, DTYPE);
      } else {
        codes[r] = load_codes<BITS>(data + row[r] * p.data_stride + unit * BITS, ALIGNED);
        params[r] = load_params<BITS>(scales, p.scales_first + row[r] * p.scales_stride, biases,
                                      p.biases_first + row[r] * p.biases_stride, unit,
                                      p.units_per_group, DTYPE);
      }
    }
#endif
#pragma clang loop unroll(full)
    for (int part = 0; part < 4; part++) {
      const uint k = unit * UNIT + 8 * part;
      Eight w[NR];
      for (int r = 0; r < NR; r++) {
#if BITS > 0
        w[r] = decode_eight<BITS>(codes[r], part, params[r], DTYPE);
#else
        const bool up = GATED && r == 1;
        const ulong place = up ? p.up_data_first + row[r] * p.up_data_stride
                               : p.data_first + row[r] * p.data_stride;
        w[r] = load_eight((device const uchar*)(up ? up_data : data), DTYPE, place + k,
                          p.k - min(k, p.k), ALIGNED);
#endif
      }
#pragma clang loop unroll(full)
      for (int m = 0; m < ROWS; m++) {
        threadgroup const float4* own =
            (threadgroup const float4*)(held[sg][m] + slice * APART + 8 * part);
        Eight v;
        v.lo = own[0];
        v.hi = own[1];
        for (int r = 0; r < NR; r++) {
          sum[m][r] = fma(v.lo, w[r].lo, sum[m][r]);
          sum[m][r] = fma(v.hi, w[r].hi, sum[m][r]);
        }
      }
    }
  }

  // Sums of a column's slices lie side by side, in place of x.
  threadgroup float* slices = held[sg][0];
  simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
#pragma clang loop unroll(full)
    for (int r = 0; r < NR; r++) {
      const float4 a = sum[m][r];
      slices[(m * NR + r) * 32 + lane] = (a.x + a.y) + (a.z + a.w);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  constexpr uint BANDS = 32 / SLICES;
  constexpr uint OUTPUTS = ROWS * (GATED ? 1 : NR) * BANDS;
  for (uint i = lane; shard == 0 && i < OUTPUTS; i += 32) {
  // a row of x, a row of the weight, a band
    const uint m = i / (OUTPUTS / ROWS);
    const uint r = GATED ? 0 : i / BANDS % NR;
    const uint band = i % BANDS;
    const uint column = (block * BANDS + band) * (GATED ? 1 : NR) + r;
    if (column < p.n && m0 + m < p.rows) {
      const uint at = (m * NR + r) * 32 + band * SLICES;
      const float s = sum_of_shards(slices + at, ROWS * SLICES * APART, p.shards);
      const float up =
          GATED ? sum_of_shards(slices + at + 32, ROWS * SLICES * APART, p.shards) : 0.0f;
      out[ulong(m0 + m) * p.out_stride + column] = GATED ? silu(s) * up : s;
    }
  }
}

typedef decltype(linear<1, false>) linear_kernel;
template [[host_name("linear_1")]] [[kernel]] linear_kernel linear<1, false>;
template [[host_name("linear_2")]] [[kernel]] linear_kernel linear<2, false>;
template [[host_name("linear_4")]] [[kernel]] linear_kernel linear<4, false>;
template [[host_name("linear_8")]] [[kernel]] linear_kernel linear<8, false>;
template [[host_name("gate_up_1")]] [[kernel]] linear_kernel linear<1, true>;
template [[host_name("gate_up_2")]] [[kernel]] linear_kernel linear<2, true>;
template [[host_name("gate_up_4")]] [[kernel]] linear_kernel linear<4, true>;
template [[host_name("gate_up_8")]] [[kernel]] linear_kernel linear<8, true>;
