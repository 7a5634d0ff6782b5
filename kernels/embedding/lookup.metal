// out[m] = factor * w[tokens[m]]. A token outside the vocabulary gives NaN. A dispatch has some
// rows of w, and leaves rows of out for other tokens as they are. It is compiled once for each
// width BITS of codes, with 0 for plain elements.
//
// Grid: x is a block of columns, y is the token m. A thread writes eight elements.
#include <metal_stdlib>
#include "common/weight.h"
using namespace metal;

#ifndef BITS
#define BITS 4
#endif

constant uint DTYPE [[function_constant(0)]];

struct LookupParams {
  uint vocabulary;
  uint first_row;    // of the rows that this dispatch has
  uint rows;
  uint k;
  uint tokens_stride;
  uint out_stride;
  uint data_first;
  uint data_stride;
  uint scales_first;
  uint scales_stride;
  uint biases_first;
  uint biases_stride;
  uint units_per_group;
  float factor;
};

kernel void lookup(
    constant LookupParams& p     [[buffer(0)]],
    device const int* tokens     [[buffer(1)]],   // [M, 1]
    device const uint* data      [[buffer(2)]],   // [rows, k] packed
    device const uchar* scales   [[buffer(3)]],   // [rows, k / group], or none
    device const uchar* biases   [[buffer(4)]],
    device float* out            [[buffer(5)]],   // [M, k]
    uint2 group                  [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]]) {
  const uint eight = group.x * threads + tid;
  const uint at = 8 * eight;
  if (at >= p.k) {
    return;
  }
  const uint valid = p.k - at;
  const int token = tokens[ulong(group.y) * p.tokens_stride];
  out += ulong(group.y) * p.out_stride + at;
  if (token < 0 || uint(token) >= p.vocabulary) {
    for (uint j = 0; j < 8 && j < valid; j++) {
      out[j] = NAN;
    }
    return;
  }
  const ulong row = uint(token) - p.first_row;   // wraps around below the first
  if (row >= p.rows) {
    return;   // another dispatch has the row
  }
#if BITS > 0
  const uint unit = eight / 4;
  const Params params = load_params<BITS>(
      scales, p.scales_first + row * p.scales_stride, biases,
      p.biases_first + row * p.biases_stride, unit, unit / p.units_per_group, DTYPE);
  const Eight v = decode_eight<BITS>(
      load_codes<BITS>(data + row * p.data_stride + unit * BITS, false), int(eight % 4), params,
      DTYPE);
#else
  const Eight v = load_eight(
      (device const uchar*)data, DTYPE, p.data_first + row * p.data_stride + at, valid, false);
#endif
  for (uint j = 0; j < 8 && j < valid; j++) {
    out[j] = (j < 4 ? v.lo[j & 3] : v.hi[j & 3]) * p.factor;
  }
}
