// Decode: out = x wᵀ for up to eight rows of x at a time. Reading the weight dominates, and it is
// read once for all rows. Compiled once for each value of BITS, the size of the weight's codes.
// BITS is 0 for plain elements.
//
// GATED is the first half of a feed-forward layer, out = silu(x gateᵀ) * (x upᵀ). Half of the NR
// rows of a band are then rows of the gate, and the others the same rows of up.
//
// A simdgroup computes 8 columns of out, or 4 if GATED. Its lanes are bands of eight slices. A band
// has NR rows of the weight. Slice s computes units s, s + 8, ... of 32 elements. All bands use the
// same elements of x, and one instruction reads 128 bytes of a row of x. The eight units that the
// slices use pass through threadgroup memory, APART floats from one to the next. With a distance of
// 128 bytes, the slices' reads would conflict in the banks and take most of the time.
//
// An element of x that a lane has read serves NR products. With many rows of x these reads take
// longer than the products. A unit then has two lanes (LANES), each with two of the four
// accumulators, and a band has twice as many rows of the weight: half of the reads, and the same
// number of registers.
//
// A lane loads its part of the next chunk, of the weight as of x, before it multiplies that of the
// current one. Otherwise each chunk would wait for memory, and rows of a few chunks for nothing
// else.
//
// A threadgroup has two simdgroups. The grid is [columns, groups of ROWS rows of x]. The last group
// repeats its last row. If a weight has few and long rows, both simdgroups compute the same rows:
// the first adds up chunks 0, 2, ... of eight units, and the second chunks 1, 3, ... These two
// parts of a sum are its shards. Otherwise (SHARED) both use the same x, and each brings half of
// it.
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

constant constexpr uint UNIT = 32;
constant constexpr uint SLICES = 8;
constant constexpr uint SIMDGROUPS = 2;
constant constexpr uint STEP = SLICES * UNIT;   // elements of a chunk
constant constexpr uint QUADS = STEP / 128;     // float4s of it in a row of x, for each lane
// floats from one unit of x to the next in threadgroup memory
constant constexpr uint APART = UNIT + 4;

constant uint DTYPE [[function_constant(0)]];
constant bool ALIGNED [[function_constant(1)]];
constant bool SHARED [[function_constant(2)]];   // both simdgroups use the same x

// A lane brings both of its float4s of each row of x, or if x is SHARED, the one of its simdgroup.
inline bool brings(uint i) { return !SHARED || i % SIMDGROUPS == 0; }
inline uint brought(uint i, uint sg) { return SHARED ? i + sg : i; }

// Loads a lane's float4s of x. `first` is the chunk's first element.
template <int ROWS>
inline void load_ahead(thread float4 (&ahead)[ROWS * QUADS], device const float* x,
                       thread const ulong (&rows)[ROWS], uint first, uint k, uint sg, uint lane) {
#pragma clang loop unroll(full)
  for (uint i = 0; i < ROWS * QUADS; i++) {
    if (brings(i)) {
      const uint at = min(first + 4 * (32 * (brought(i, sg) % QUADS) + lane), k);
      ahead[i] = load_four(x + rows[i / QUADS] + at, k - at, ALIGNED);
    }
  }
}

// Puts them where the lanes find them.
template <int ROWS>
inline void put_ahead(threadgroup float (&held)[ROWS][SLICES * APART],
                      thread const float4 (&ahead)[ROWS * QUADS], uint sg, uint lane) {
#pragma clang loop unroll(full)
  for (uint i = 0; i < ROWS * QUADS; i++) {
    if (brings(i)) {
      const uint quad = 32 * (brought(i, sg) % QUADS) + lane;
      const uint place = quad / (UNIT / 4) * APART + quad % (UNIT / 4) * 4;
      *(threadgroup float4*)(held[i / QUADS] + place) = ahead[i];
    }
  }
}

// Waits for the simdgroups that use the same x.
inline void wait_for_x() {
  if (SHARED) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
  } else {
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// Returns the sum of a column's eight slices. With two LANES, the sums of the others' accumulators
// come after them.
template <int LANES> inline float sum_of_slices(threadgroup const float* s) {
  float4 a = *(threadgroup const float4*)s;
  float4 b = *(threadgroup const float4*)(s + 4);
  if (LANES == 2) {
    a = a + *(threadgroup const float4*)(s + SLICES);
    b = b + *(threadgroup const float4*)(s + SLICES + 4);
  }
  return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
}

// Returns the sum of a column's shards, which begin `apart` floats after each other.
template <int LANES>
inline float sum_of_shards(threadgroup const float* s, uint apart, uint shards) {
  const float first = sum_of_slices<LANES>(s);
  return shards == 1 ? first : first + sum_of_slices<LANES>(s + apart);
}

// What a lane has of a unit of a row of the weight.
struct Unit {
#if BITS > 0
  Codes<BITS> codes;
  Params params;
#else
  device const uchar* data;
  ulong first;
  uint4 ahead[4];   // its elements, if EARLY
#endif
};

#if BITS == 0
// Elements of 16 bits are loaded with the unit, unless many rows of x need the registers. A lane's
// 64 bytes then come from memory at once, and while those before are used.
template <int ROWS> inline bool early() { return ROWS <= 2 && ALIGNED && DTYPE != DTYPE_F32; }
#endif

// Where a weight's rows are in its buffers, in elements.
struct Places {
  uint data_first;
  uint data_stride;
  uint scales_first;
  uint scales_stride;
  uint biases_first;
  uint biases_stride;
};

inline Places places_of(constant LinearParams& p, bool up) {
  Places w;
  w.data_first = up ? p.up_data_first : p.data_first;
  w.data_stride = up ? p.up_data_stride : p.data_stride;
  w.scales_first = up ? p.up_scales_first : p.scales_first;
  w.scales_stride = up ? p.up_scales_stride : p.scales_stride;
  w.biases_first = up ? p.up_biases_first : p.biases_first;
  w.biases_stride = up ? p.up_biases_stride : p.biases_stride;
  return w;
}

// How a unit finds its group. The blocks of FP8 have any number of units. Other groups have 1, 2
// or 4, so that a shift finds them.
struct Groups {
  uint units, shift;
};

inline uint group_of(uint unit, Groups groups) {
  return BITS == 8 && DTYPE == DTYPE_E4M3 ? unit / groups.units : unit >> groups.shift;
}

// Loads unit `at` of a row of a weight of k elements.
template <int ROWS>
inline Unit load_unit(device const uint* data, device const uchar* scales,
                      device const uchar* biases, Places p, ulong row, uint at, Groups groups,
                      uint k) {
  Unit u;
#if BITS > 0
  u.codes = load_codes<BITS>(data + row * p.data_stride + at * BITS, ALIGNED);
  u.params = load_params<BITS>(scales, p.scales_first + row * p.scales_stride, biases,
                               p.biases_first + row * p.biases_stride, at, group_of(at, groups),
                               DTYPE);
#else
  u.data = (device const uchar*)data;
  u.first = p.data_first + row * p.data_stride;
  if (early<ROWS>()) {
#pragma clang loop unroll(full)
    for (uint part = 0; part < 4; part++) {
      const uint from = at * UNIT + 8 * part;
      if (from + 8 <= k) {
        u.ahead[part] = *(device const uint4*)((device const ushort*)u.data + u.first + from);
      }
    }
  }
#endif
  return u;
}

// The products of a lane with elements [8 part, 8 part + 8) of a unit of NR rows of the weight: x
// times all four accumulators, or with two LANES, times the two of this lane.
template <int ROWS, int NR>
inline void multiply_add(thread float4 (&sum)[ROWS][NR], thread const Unit (&units)[NR], int part,
                         threadgroup const float (&x)[ROWS][SLICES * APART], uint place, uint k,
                         uint from, uint) {
  Eight w[NR];
#pragma clang loop unroll(full)
  for (int r = 0; r < NR; r++) {
#if BITS > 0
    w[r] = decode_eight<BITS>(units[r].codes, part, units[r].params, DTYPE);
#else
    if (early<ROWS>() && from + 8 <= k) {
      w[r] = eight_of(units[r].ahead[part], DTYPE);
    } else {
      w[r] = load_eight(units[r].data, DTYPE, units[r].first + from, k - min(from, k), ALIGNED);
    }
#endif
  }
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
    threadgroup const float4* own = (threadgroup const float4*)(x[m] + place);
    const float4 lo = own[0];
    const float4 hi = own[1];
#pragma clang loop unroll(full)
    for (int r = 0; r < NR; r++) {
      sum[m][r] = fma(lo, w[r].lo, sum[m][r]);
      sum[m][r] = fma(hi, w[r].hi, sum[m][r]);
    }
  }
}

#if BITS == 4
template <int ROWS, int NR>
inline void multiply_add(thread float2 (&sum)[ROWS][NR], thread const Unit (&units)[NR], int part,
                         threadgroup const float (&x)[ROWS][SLICES * APART], uint place, uint,
                         uint, uint pair) {
  float2 lo[NR];
  float2 hi[NR];
#pragma clang loop unroll(full)
  for (int r = 0; r < NR; r++) {
    decode_pairs(lo[r], hi[r], units[r].codes, part, pair, units[r].params, DTYPE);
  }
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
    threadgroup const float2* own = (threadgroup const float2*)(x[m] + place + 2 * pair);
    const float2 a = own[0];
    const float2 b = own[2];
#pragma clang loop unroll(full)
    for (int r = 0; r < NR; r++) {
      sum[m][r] = fma(a, lo[r], sum[m][r]);
      sum[m][r] = fma(b, hi[r], sum[m][r]);
    }
  }
}
#endif

inline float sum_of(float4 a) { return (a.x + a.y) + (a.z + a.w); }
inline float sum_of(float2 a) { return a.x + a.y; }

// LANES is 1 and SUM float4, or LANES 2 and SUM float2.
template <int ROWS, bool GATED, int LANES, typename SUM>
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
  constexpr uint BANDS = 32 / SLICES / LANES;
  constexpr int COLUMNS = (GATED ? 1 : 2) * LANES;   // of a band
  constexpr int NR = GATED ? 2 * COLUMNS : COLUMNS;
  const uint slice = lane % SLICES;
  const uint pair = lane / SLICES % LANES;
  const uint band = lane / SLICES / LANES;
  const uint shard = sg % p.shards;
  const uint block = (group.x * simdgroups + sg) / p.shards;   // of columns
  const uint first = (block * BANDS + band) * COLUMNS;
  const uint m0 = group.y * ROWS;

  ulong matrix = 0;
  if (p.experts != 0) { // ROWS is 1
    const int id = ids[m0 / p.choices * p.ids_stride + m0 % p.choices];
    if (id < 0 || uint(id) >= p.experts) {
      for (int r = 0; r < COLUMNS; r++) {
        if (slice == 0 && pair == 0 && shard == 0 && first + r < p.n) {
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

  ulong at_x[ROWS];
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
    at_x[m] = ulong(min(m0 + m, p.rows - 1) / p.per_input) * p.x_stride;
  }
  Groups groups = {p.units_per_group, 0};
  while ((1u << groups.shift) < groups.units) {
    groups.shift++;
  }

  ulong row[NR];
  SUM sum[ROWS][NR];
#pragma clang loop unroll(full)
  for (int r = 0; r < NR; r++) {
    row[r] = matrix + min(first + r % COLUMNS, p.n - 1);
#pragma clang loop unroll(full)
    for (int m = 0; m < ROWS; m++) {
      sum[m][r] = SUM(0.0f);
    }
  }
  threadgroup float held[SIMDGROUPS][ROWS][SLICES * APART];
  const uint own = SHARED ? 0 : sg;
  float4 ahead[ROWS * QUADS];   // of x: under way while the part before is used
  const uint step = p.shards * STEP;
  load_ahead<ROWS>(ahead, x, at_x, shard * STEP, p.k, sg, lane);
  const uint units = (p.k + UNIT - 1) / UNIT;
  Unit next[NR];   // of the weight: under way while those before are used
  uint at = min(shard * SLICES + slice, units - 1);   // a unit that exists
#pragma clang loop unroll(full)
  for (int r = 0; r < NR; r++) {
    const bool up = GATED && r >= COLUMNS;
    next[r] = up ? load_unit<ROWS>(up_data, up_scales, up_biases, places_of(p, true), row[r], at,
                                   groups, p.k)
                 : load_unit<ROWS>(data, scales, biases, places_of(p, false), row[r], at, groups,
                                   p.k);
  }
  for (uint from = shard * STEP; from < p.k; from += step) {
    wait_for_x();   // what was there has been used
    put_ahead<ROWS>(held[own], ahead, sg, lane);
    wait_for_x();
    load_ahead<ROWS>(ahead, x, at_x, from + step, p.k, sg, lane);
    const uint unit = from / UNIT + slice;
    Unit weights[NR];
#pragma clang loop unroll(full)
    for (int r = 0; r < NR; r++) {
      weights[r] = next[r];
    }
    at = min((from + step) / UNIT + slice, units - 1);
#pragma clang loop unroll(full)
    for (int r = 0; r < NR; r++) {
      const bool up = GATED && r >= COLUMNS;
      next[r] = up ? load_unit<ROWS>(up_data, up_scales, up_biases, places_of(p, true), row[r],
                                     at, groups, p.k)
                   : load_unit<ROWS>(data, scales, biases, places_of(p, false), row[r], at,
                                     groups, p.k);
    }
    if (unit * UNIT >= p.k) {
      continue;
    }
#pragma clang loop unroll(full)
    for (int part = 0; part < 4; part++) {
      multiply_add<ROWS, NR>(sum, weights, part, held[own], slice * APART + 8 * part, p.k,
                             unit * UNIT + 8 * part, pair);
    }
  }

  // Sums of a column's slices lie side by side, in place of x.
  threadgroup float* slices = held[sg][0];
  wait_for_x();
#pragma clang loop unroll(full)
  for (int m = 0; m < ROWS; m++) {
#pragma clang loop unroll(full)
    for (int r = 0; r < NR; r++) {
      slices[(m * NR + r) * 32 + lane] = sum_of(sum[m][r]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  constexpr uint OUTPUTS = ROWS * COLUMNS * BANDS;
  for (uint i = lane; shard == 0 && i < OUTPUTS; i += 32) {
    // a row of x, a row of the weight, a band
    const uint m = i / (COLUMNS * BANDS);
    const uint r = i / BANDS % COLUMNS;
    const uint at = (m * NR + r) * 32 + i % BANDS * (SLICES * LANES);
    const uint column = (block * BANDS + i % BANDS) * COLUMNS + r;
    if (column < p.n && m0 + m < p.rows) {
      constexpr uint apart = ROWS * SLICES * APART;
      const float s = sum_of_shards<LANES>(slices + at, apart, p.shards);
      const float up =
          GATED ? sum_of_shards<LANES>(slices + at + 32 * COLUMNS, apart, p.shards) : 0.0f;
      out[ulong(m0 + m) * p.out_stride + column] = GATED ? silu(s) * up : s;
    }
  }
}

typedef decltype(linear<1, false, 1, float4>) linear_kernel;
#if BITS == 4
#define MANY 2, float2   // lanes of a unit for many rows, and the accumulators of each
#else
#define MANY 1, float4
#endif
template [[host_name("linear_1")]] [[kernel]] linear_kernel linear<1, false, 1, float4>;
template [[host_name("linear_2")]] [[kernel]] linear_kernel linear<2, false, 1, float4>;
template [[host_name("linear_4")]] [[kernel]] linear_kernel linear<4, false, MANY>;
template [[host_name("linear_8")]] [[kernel]] linear_kernel linear<8, false, MANY>;
template [[host_name("gate_up_1")]] [[kernel]] linear_kernel linear<1, true, 1, float4>;
template [[host_name("gate_up_2")]] [[kernel]] linear_kernel linear<2, true, 1, float4>;
template [[host_name("gate_up_4")]] [[kernel]] linear_kernel linear<4, true, MANY>;
template [[host_name("gate_up_8")]] [[kernel]] linear_kernel linear<8, true, MANY>;
