// Prefill: out = x wᵀ for many rows of x, computed with simdgroup matrices. Compiled once for each
// value of BITS, the size of the weight's codes. BITS is 0 for plain elements.
//
// A threadgroup of four simdgroups computes a tile of 32 rows by 64 columns of out. For each 32
// elements of k it loads a tile of x and an unpacked tile of w into threadgroup memory, as float32.
// Each simdgroup then computes 16 rows by 32 columns. The grid is [tiles of rows, tiles of
// columns], so neighbouring threadgroups share a tile of the weight.
//
// With experts, experts_sort lists the rows of each tile. All rows of a tile have the same expert.
//
// An element of out is a sum of blocks of eight elements of k, in order. This order does not depend
// on the tile or on the row's place in it.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#include "common/linear.h"
#include "common/weight.h"
using namespace metal;

#ifndef BITS
#define BITS 4
#endif

constant constexpr uint ROWS = 32;
constant constexpr uint COLS = 64;
constant constexpr uint UNIT = 32;
// Floats from one row of a tile to the next. The gap puts consecutive rows into different banks.
constant constexpr uint PITCH = UNIT + 4;

constant uint DTYPE [[function_constant(0)]];
constant bool ALIGNED [[function_constant(1)]];

kernel void prefill(
    constant LinearParams& p    [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [rows / per_input, k]
    device const uint* data      [[buffer(2)]],   // [some_experts n, k] packed
    device const uchar* scales   [[buffer(3)]],   // [some_experts n, k / group], or nothing
    device const uchar* biases   [[buffer(4)]],
    device const int* lists      [[buffer(5)]],   // from experts_sort, or nothing
    device float* out            [[buffer(6)]],   // [rows, n]
    uint2 group                  [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]]) {
  threadgroup float tile[(ROWS + COLS) * PITCH];
  threadgroup float* tile_x = tile;
  threadgroup float* tile_w = tile + ROWS * PITCH;

  // The tile's rows are [first, first + count) of out, or of the list.
  uint first = group.x * ROWS;
  uint count = 0;
  ulong matrix = 0;
  const bool gathered = p.experts != 0;
  if (gathered) {
    device const int* entry = lists + p.rows + 3 * group.x;
    const uint expert = uint(entry[0]);
    first = uint(entry[1]);
    count = uint(entry[2]);
    if (expert == p.experts) {                  // rows with an invalid expert
      for (uint e = tid; e < count * COLS; e += 128) {
        const uint c = group.y * COLS + e % COLS;
        if (c < p.n) {
          out[ulong(lists[first + e / COLS]) * p.out_stride + c] = NAN;
        }
      }
      return;
    }
    const uint own = expert - p.first_expert;   // wraps around below the first
    if (own >= p.some_experts) {
      return;   // another dispatch has the matrix
    }
    matrix = ulong(own) * p.n;
  } else {
    count = min(ROWS, p.rows - first);
  }
  if (count == 0) {                             // the grid has more tiles than the list
    return;
  }

  // For each 32 elements of k, this thread loads eight elements of a row of x and sixteen of a row
  // of w. The threads of a simdgroup load the same half of their rows of w.
  const uint x_row = tid / 4;
  const uint x_col = tid % 4 * 8;
  const uint w_row = tid % COLS;
  const uint w_half = tid / COLS;
  const uint place = first + min(x_row, count - 1);
  const ulong at_x = ulong((gathered ? uint(lists[place]) : place) / p.per_input) * p.x_stride;
  const bool has_x = x_row < count;
  const ulong row = matrix + min(group.y * COLS + w_row, p.n - 1);

  // This simdgroup computes 16 rows from sub_row and 32 columns from sub_col.
  const uint sub_row = sg / 2 * 16;
  const uint sub_col = sg % 2 * 32;
  simdgroup_float8x8 sum[2][4];
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 4; j++) {
      sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }

  for (uint k = 0; k < p.k; k += UNIT) {
    Eight v = load_eight((device const uchar*)x, DTYPE_F32, at_x + k + x_col,
                         has_x ? p.k - min(k + x_col, p.k) : 0, ALIGNED);
    *(threadgroup float4*)(tile_x + x_row * PITCH + x_col) = v.lo;
    *(threadgroup float4*)(tile_x + x_row * PITCH + x_col + 4) = v.hi;
#if BITS > 0
    const uint unit = k / UNIT;
    const Codes<BITS> codes = load_codes<BITS>(data + row * p.data_stride + unit * BITS, ALIGNED);
    const Params params = load_params<BITS>(
        scales, p.scales_first + row * p.scales_stride, biases,
        p.biases_first + row * p.biases_stride, unit, unit / p.units_per_group, DTYPE);
#endif
#pragma clang loop unroll(full)
    for (int part = 0; part < 4; part++) {
      if (uint(part / 2) == w_half) {
#if BITS > 0
        v = decode_eight<BITS>(codes, part, params, DTYPE);
#else
        const uint at = k + 8 * part;
        v = load_eight((device const uchar*)data, DTYPE, p.data_first + row * p.data_stride + at,
                       p.k - min(at, p.k), ALIGNED);
#endif
        *(threadgroup float4*)(tile_w + w_row * PITCH + 8 * part) = v.lo;
        *(threadgroup float4*)(tile_w + w_row * PITCH + 8 * part + 4) = v.hi;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint kk = 0; kk < UNIT; kk += 8) {
      simdgroup_float8x8 a[2];
      simdgroup_float8x8 b[4];
      for (int i = 0; i < 2; i++) {
        simdgroup_load(a[i], tile_x + (sub_row + 8 * i) * PITCH + kk, PITCH);
      }
      for (int j = 0; j < 4; j++) {
        simdgroup_load(b[j], tile_w + (sub_col + 8 * j) * PITCH + kk, PITCH, ulong2(0, 0), true);
      }
      for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
          simdgroup_multiply_accumulate(sum[i][j], a[i], b[j], sum[i][j]);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  // Store the sums in threadgroup memory, over the weights. Then copy the rows and columns that
  // exist to out.
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 4; j++) {
      simdgroup_store(sum[i][j], tile_w + (sub_row + 8 * i) * COLS + sub_col + 8 * j, COLS);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint e = tid; e < count * COLS; e += 128) {
    const uint r = e / COLS;
    const uint c = group.y * COLS + e % COLS;
    if (c < p.n) {
      const uint to = gathered ? uint(lists[first + r]) : first + r;
      out[ulong(to) * p.out_stride + c] = tile_w[e];
    }
  }
}
