// RMSNorm of each head's row, then rotary embedding with dimension i paired with i + rotary_half.
//
// Grid: a threadgroup computes one row of the batch for as many heads as it has simdgroups. Its
// threads compute the cosines and sines of the row, and then each simdgroup computes one head. A
// lane has the pairs (i, i + rotary_half) for i = lane, lane + 32, ... and every 32nd of the other
// columns. So the order of the sum of squares depends only on the widths. A lane reads only columns
// that it also writes, so out may be x. If pairs are interleaved, pair i of x is (2i, 2i + 1), and
// out may not be x.
#include <metal_stdlib>
#include "common/span.h"
using namespace metal;

struct NormRopeParams {
  int spans;
  uint heads;
  uint head_dim;
  uint rotary_half;
  uint x_stride;  // between heads
  uint out_stride;
  uint has_weight;
  uint pos_step;
  uint pos_scales;  // the number of factors, 0 for none
  uint interleaved;
  float eps;
  float scale;
};

// Returns frequency / 2 pi, the turns per position, in units of 2^-64 turns, for frequencies below
// 2^26. It is the product of 1 / 2 pi = 0xa2f9836e4e44152a * 2^-66 and the 24 bits of the
// frequency, shifted. Whole turns overflow, here and in the product with a position.
inline ulong turns(float frequency) {
  const uint bits = as_type<uint>(frequency);
  const uint exponent = (bits >> 23) & 255;
  const ulong mantissa = (bits & 0x7fffff) | 0x800000;
  const ulong low = mantissa * 0x4e44152aul;
  // high * 2^32 + low's last 32 bits: 88 bits
  const ulong high = mantissa * 0xa2f9836eul + (low >> 32);
  const int shift = 152 - int(exponent);
  ulong t = 0;  // for frequencies below 2^-70, zero among them
  if (shift >= 32 && shift < 96) {
    t = high >> (shift - 32);
  } else if (shift > 0 && shift < 32) {
    t = (high << (32 - shift)) | ((low & 0xffffffff) >> shift);
  }
  return bits >> 31 != 0 ? 0 - t : t;
}

// Returns the cosine and the sine of an angle in units of 2^-64 turns. The error is within 0.8
// units in the last place, except for angles next to a multiple of pi / 2, where it is near 1e-11.
// Metal has no double, so the angle is reduced to within pi / 4 of a multiple of pi / 2 and held as
// a sum of two floats. The polynomials are those of fdlibm's k_sin.c and k_cos.c (Sun Microsystems
// 1993), with the part of the second float added at the end. All operations are correctly rounded,
// so the bits are the same on every device.
inline float2 cosine_and_sine(ulong angle) {
  const ulong quarter = (angle + (1ul << 61)) >> 62;
  const long rest = long(angle - (quarter << 62));       // in [-2^61, 2^61)
  const int top = int(rest >> 32);
  const float a = float(top);
  // the part of rest that a does not hold, times 2^-32
  const float b = float(top - int(a)) + float(uint(rest)) * 2.3283064365386963e-10f;
  const float x = a * 1.462918119976564e-09f;            // times 2 pi * 2^-32
  const float tail = fma(a, 1.462918119976564e-09f, -x) +
      fma(a, -4.070940267922164e-17f, b * 1.462918119976564e-09f);
  const float z = x * x;

  float s = 2.75573137070700676789e-06f;
  s = fma(s, z, -1.98412698298579493134e-04f);
  s = fma(s, z, 8.33333333332248946124e-03f);
  s = fma(s, z, -1.66666666666666324348e-01f);
  const float sine = x + fma(s, z * x, fma(-0.5f * z, tail, tail));
  float c = -2.75573143513906633035e-07f;
  c = fma(c, z, 2.48015872894767294178e-05f);
  c = fma(c, z, -1.38888888888741095749e-03f);
  c = fma(c, z, 4.16666666666666019037e-02f);
  const float w = 1.0f - 0.5f * z;
  const float cosine = w + (((1.0f - w) - 0.5f * z) + fma(c, z * z, -x * tail));

  const bool odd = (quarter & 1) != 0;
  const float c0 = odd ? sine : cosine;
  const float s0 = odd ? cosine : sine;
  return float2(((quarter + 1) & 2) != 0 ? -c0 : c0, (quarter & 2) != 0 ? -s0 : s0);
}

kernel void norm_rope(
    constant NormRopeParams& p    [[buffer(0)]],
    device const Span* spans      [[buffer(1)]],
    device const float* x         [[buffer(2)]],   // [M*heads, head_dim]
    device const float* weight    [[buffer(3)]],   // [head_dim], or none
    device const float* inv_freq  [[buffer(4)]],   // [rotary_half]
    device const float* pos_scale [[buffer(5)]],   // [pos_scales], or none
    device float* out             [[buffer(6)]],   // [M*heads, head_dim]
    threadgroup float2* table     [[threadgroup(0)]],   // [rotary_half]: cosine, sine
    uint2 group                   [[threadgroup_position_in_grid]],   // row, block of heads
    uint tid                      [[thread_index_in_threadgroup]],
    uint2 threads                 [[threads_per_threadgroup]],
    uint lane                     [[thread_index_in_simdgroup]],
    uint sg                       [[simdgroup_index_in_threadgroup]],
    uint simdgroups               [[simdgroups_per_threadgroup]]) {
  const int span = span_of(spans, p.spans, int(group.x));
  const bool inside = span < p.spans;  // the same in all threads
  float factor = 1.0f;                 // of the whole row
  if (inside) {
    const uint position = uint(spans[span].pos + (int(group.x) - spans[span].row));
    if (p.pos_scales != 0) {
      factor = pos_scale[min(position / p.pos_step, p.pos_scales - 1)];
    }
    for (uint i = tid; i < p.rotary_half; i += threads.x) {
      table[i] = cosine_and_sine(ulong(position) * turns(inv_freq[i])) * (p.scale * factor);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint head = group.y * simdgroups + sg;
  if (!inside || head >= p.heads) {
    return;
  }
  const ulong row = ulong(group.x) * p.heads + head;
  x += row * p.x_stride;
  out += row * p.out_stride;

  float norm = 1.0f;
  if (p.has_weight != 0) {
    float squares = 0.0f;
    for (uint i = lane; i < p.rotary_half; i += 32) {
      squares = fma(x[i], x[i], squares);
      squares = fma(x[i + p.rotary_half], x[i + p.rotary_half], squares);
    }
    for (uint i = 2 * p.rotary_half + lane; i < p.head_dim; i += 32) {
      squares = fma(x[i], x[i], squares);
    }
    norm = 1.0f / sqrt(simd_sum(squares) / float(p.head_dim) + p.eps);
  }
  for (uint i = lane; i < p.rotary_half; i += 32) {
    const uint j = i + p.rotary_half;
    const uint from = p.interleaved != 0 ? 2 * i : i;
    const uint with = p.interleaved != 0 ? 2 * i + 1 : j;
    float a = x[from];
    float b = x[with];
    if (p.has_weight != 0) {
      a = a * norm * weight[from];
      b = b * norm * weight[with];
    }
    const float cosine = table[i].x;
    const float sine = table[i].y;
    out[i] = fma(-b, sine, a * cosine);
    out[j] = fma(a, sine, b * cosine);
  }
  for (uint i = 2 * p.rotary_half + lane; i < p.head_dim; i += 32) {
    out[i] = (p.has_weight != 0 ? x[i] * norm * weight[i] : x[i]) * factor;
  }
}
