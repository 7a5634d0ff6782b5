// Writes keys and values into their pages, rounded to the cache's formats, with the same bits as
// strip.write in quantized.go.
//
// Grid: a simdgroup writes one row of one head of K or of V. Lane l has dimensions l, l + 32, ...
// The 32 dimensions that the lanes hold at a time are a slice, and a group is 1, 2 or 4 slices.
// Codes go through threadgroup memory, because a byte of a page holds codes of several lanes.
#include <metal_stdlib>
#include "common/kv_page.h"
#include "common/span.h"
using namespace metal;

constant uint k_dtype [[function_constant(0)]];
constant uint k_bits [[function_constant(1)]];
constant uint k_group [[function_constant(2)]];
constant uint k_zero [[function_constant(3)]];
constant uint v_dtype [[function_constant(4)]];
constant uint v_bits [[function_constant(5)]];
constant uint v_group [[function_constant(6)]];
constant uint v_zero [[function_constant(7)]];

constant constexpr float LARGEST = 65504.0f;   // largest half; elements beyond it saturate
constant constexpr uint SLICES = 4;            // slices of the largest group

struct KVAppendParams {
  uint kv_heads;
  uint head_dim;
  uint page_tokens;
  uint k_stride;
  uint v_stride;
  uint values;   // 1, or 0 if there is no V
  uint start_tokens;
  uint start_pages;
  int spans;
};

inline ushort half_bits(float x) {
  return isnan(x) ? ushort(0x7e00) : as_type<ushort>(half(max(-LARGEST, min(LARGEST, x))));
}

inline ushort bf16_bits(float x) {
  const uint bits = as_type<uint>(x);
  return isnan(x) ? ushort(0x7fc0) : ushort((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The parameters of a group: scale and bias as stored, and as its codes are computed from.
struct Grid {
  ushort scale_bits;
  ushort bias_bits;
  float scale;
  float bias;
};

// The parameters for finite elements in [lo, hi]. largest is the first element with the largest
// magnitude.
inline Grid grid_of(KVFormat f, float lo, float hi, float largest) {
  Grid g;
  g.bias_bits = 0;
  g.bias = 0.0f;
  if (f.zero != 0) {
    g.scale = f.zero == 128 ? max(hi, -lo) / 127.0f + 0.0f : largest / -8.0f + 0.0f;   // never -0
    g.scale_bits = half_bits(g.scale);
    return g;
  }
  // The end farther from zero is exact, and so is zero.
  float s = max((hi - lo) / float((1u << f.bits) - 1), 1e-7f);
  float edge = lo;
  if (!(fabs(lo) > fabs(hi))) {
    edge = hi;
    s = -s;
  }
  const float steps = rint(edge / s);
  if (steps != 0.0f) {
    s = edge / steps;
    g.bias_bits = half_bits(edge);
  }
  g.scale_bits = half_bits(s);
  g.scale = float(as_type<half>(g.scale_bits));
  g.bias = float(as_type<half>(g.bias_bits));
  return g;
}

inline uint code_of(KVFormat f, Grid g, float x) {
  switch (f.zero) {
    case 0: return uint(max(0.0f, min(float((1u << f.bits) - 1), rint((x - g.bias) / g.scale))));
    case 128: return g.scale == 0.0f ? 128 : uint(int(rint(x / g.scale)) + 128);
  }
  return g.scale == 0.0f ? 8 : uint(min(15.0f, x / g.scale + 8.5f));
}

kernel void kv_append(
    constant KVAppendParams& p   [[buffer(0)]],
    device const float* k        [[buffer(1)]],   // [M, kv_heads*head_dim]
    device const float* v        [[buffer(2)]],   // or none
    // slot: index of the span's page table in the integers after the spans
    device const Span* spans     [[buffer(3)]],
    device uchar* k_pages        [[buffer(4)]],
    device uchar* v_pages        [[buffer(5)]],
    threadgroup uchar* codes     [[threadgroup(0)]],   // [simdgroups, head_dim]
    // row of the batch, block of heads: first those of K, then those of V
    uint2 place                  [[threadgroup_position_in_grid]],
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  const uint unit = place.y * simdgroups + sg;
  const int s = span_of(spans, p.spans, int(place.x));
  if (s == p.spans || unit >= (1 + p.values) * p.kv_heads) {
    return;
  }
  const bool keys = unit < p.kv_heads;
  const uint head = keys ? unit : unit - p.kv_heads;
  const uint dims = p.head_dim;
  const uint pos = uint(spans[s].pos) + place.x - uint(spans[s].row);
  const uint page = uint(
      ((device const int*)(spans + p.spans))[uint(spans[s].slot) + pos / p.page_tokens]);
  const uint in_page = pos % p.page_tokens;
  device const float* x =
      (keys ? k + ulong(place.x) * p.k_stride : v + ulong(place.x) * p.v_stride) + head * dims;
  KVFormat f;
  f.dtype = keys ? k_dtype : v_dtype;
  f.bits = keys ? k_bits : v_bits;
  f.group = keys ? k_group : v_group;
  f.zero = keys ? k_zero : v_zero;
  device uchar* at = keys ? k_pages : v_pages;
  if (pos < p.start_tokens) {
    f = kv_start(f);
  } else {
    at += kv_start_bytes(f, dims, p.kv_heads, p.page_tokens, p.start_pages);
  }
  const uint row_bytes = kv_row_bytes(f, dims);
  at += (ulong(page) * p.kv_heads + head) * p.page_tokens * row_bytes;

  if (f.bits == 0) {
    for (uint d = lane; d < dims; d += 32) {
      const ulong i = keys ? d * p.page_tokens + in_page : in_page * dims + d;
      if (f.dtype == 0) {
        ((device float*)at)[i] = x[d];
      } else {
        ((device ushort*)at)[i] = f.dtype == 1 ? half_bits(x[d]) : bf16_bits(x[d]);
      }
    }
    return;
  }

  at += in_page / STRIP * STRIP * row_bytes;
  const uint in_strip = in_page % STRIP;
  threadgroup uchar* own = codes + sg * dims;
  const uint groups = dims / f.group;
  for (uint g = 0; g < groups; g++) {
    float e[SLICES];
    float lo = LARGEST;
    float hi = -LARGEST;
    bool nan = false;
    for (uint i = 0; i < SLICES; i++) {
      if (i * 32 < f.group) {
        const float y = x[g * f.group + i * 32 + lane];
        nan = nan || isnan(y);
        e[i] = max(-LARGEST, min(LARGEST, y));
        lo = min(lo, e[i]);
        hi = max(hi, e[i]);
      }
    }
    lo = simd_min(lo);
    hi = simd_max(hi);
    nan = simd_any(nan);
    // Used only if a group is one slice.
    const uint first = simd_min(fabs(e[0]) == max(hi, -lo) ? lane : 32u);
    const Grid r = grid_of(f, lo, hi, simd_shuffle(e[0], ushort(first % 32)));
    for (uint i = 0; i < SLICES; i++) {
      if (i * 32 < f.group) {
        own[g * f.group + i * 32 + lane] = nan ? uchar(0) : uchar(code_of(f, r, e[i]));
      }
    }
    if (lane == 0) {
      device ushort* params = (device ushort*)at;
      params[g * STRIP + in_strip] = nan ? ushort(0x7e00) : r.scale_bits;
      if (f.zero == 0) {
        params[(groups + g) * STRIP + in_strip] = nan ? ushort(0x7e00) : r.bias_bits;
      }
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  at += kv_param_bytes(f, dims);
  for (uint n = lane; n < dims * f.bits / 8; n += 32) {
    const KVByte b = kv_byte(keys, f.bits, n, in_strip);
    uint byte = 0;
    for (uint i = 0; i * b.width < 8; i++) {
      byte |= extract_bits(uint(own[b.dim + i * b.step]), b.shift, b.width) << (i * b.width);
    }
    at[b.at] = uchar(byte);
  }
}
