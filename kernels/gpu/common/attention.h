// What the kernels of attention share (kernels/attention): parameters, what a row sees, and keys and values as floats.
#pragma once
#include <metal_stdlib>
#include "common/kv_page.h"
using namespace metal;

constant uint k_dtype [[function_constant(0)]];
constant uint k_bits [[function_constant(1)]];
constant uint k_group [[function_constant(2)]];
constant uint k_zero [[function_constant(3)]];
constant uint v_dtype [[function_constant(4)]];
constant uint v_bits [[function_constant(5)]];
constant uint v_group [[function_constant(6)]];
constant uint v_zero [[function_constant(7)]];
constant uint head_dim [[function_constant(9)]];
constant uint has_start [[function_constant(10)]];   // the first start_tokens positions are kept as kv_start says

constant constexpr float LOWEST = -3.0e38f;

struct AttentionParams {
  uint kv_heads;
  uint group;
  uint page_tokens;
  uint q_stride;
  uint out_stride;
  uint window;
  uint sink_tokens;
  uint start_tokens;   // a multiple of 512
  uint start_pages;
  uint has_sinks;
  uint spans;
  float scale;
};

struct AttentionSpan {
  int row;
  int rows;
  int pos;
  int pages;      // where its page table begins behind the spans
  int block;      // blocks of vectors before it
  int segments;   // that a split span's records are for, 0: it is not split
  int segment;    // the first of them behind the sinks'
  int record;     // blocks of records before it
};

// The positions that one block's or vector's segment holds: [from, to), and [0, sinks) where a window has left those behind.
struct Seen {
  uint from;
  uint to;
  uint sinks;
};

inline uint seen_from(uint window, uint sink_tokens, uint pos) {
  return window == 0 || pos + 1 <= window ? 0 : max(sink_tokens, pos + 1 - window);
}

inline bool sees(Seen s, uint j) { return (j >= s.from && j < s.to) || j < s.sinks; }

inline KVFormat k_format() {
  KVFormat f;
  f.dtype = k_dtype;
  f.bits = k_bits;
  f.group = k_group;
  f.zero = k_zero;
  return f;
}

inline KVFormat v_format() {
  KVFormat f;
  f.dtype = v_dtype;
  f.bits = v_bits;
  f.group = v_group;
  f.zero = v_zero;
  return f;
}

// Whether the position belongs to the start, and with it all others of its tile, or segment of 256.
inline bool is_early(constant AttentionParams& p, uint pos) { return has_start != 0 && pos < p.start_tokens; }

// A head's page of keys or values, of the start if early.
inline device const uchar* head_page(device const uchar* pages, KVFormat f, constant AttentionParams& p, bool early, int page, uint head) {
  if (early) {
    f = kv_start(f);
  } else if (has_start != 0) {
    pages += kv_start_bytes(f, head_dim, p.kv_heads, p.page_tokens, p.start_pages);
  }
  return pages + (ulong(page) * p.kv_heads + head) * p.page_tokens * kv_row_bytes(f, head_dim);
}

// Codes as floats, exactly: in the lowest bits of 2^23, which is then taken away. Cheaper than a conversion where that is not at full rate.
inline float4 code_floats(uint4 codes) { return as_type<float4>(codes | 0x4b000000u) - 8388608.0f; }

// Dimensions 4q to 4q+3 of a position of K; page is a head's page, at the position's place in it.
inline float4 k_quad(device const uchar* page, bool early, uint page_tokens, uint place, uint q) {
  const KVFormat f = k_format();
  if (f.bits == 0 || early) {
    const uint dtype = early ? kv_start(f).dtype : f.dtype;
    float4 x;
    for (uint i = 0; i < 4; i++) {
      x[i] = kv_plain(dtype, page, (4 * q + i) * page_tokens + place);
    }
    return x;
  }
  device const uchar* strip = page + place / STRIP * STRIP * kv_row_bytes(f, head_dim);
  device const half* params = (device const half*)strip;
  const uint g = 4 * q / k_group;
  const float scale = float(params[g * STRIP + place % STRIP]);
  const float bias = k_zero == 0 ? float(params[(head_dim / k_group + g) * STRIP + place % STRIP]) : -float(k_zero) * scale;
  return fma(code_floats(k_codes(strip + kv_param_bytes(f, head_dim), k_bits, q, place % STRIP)), float4(scale), float4(bias));
}

// Dimension d of positions place to place+3 of V.
inline float4 v_quad(device const uchar* page, bool early, uint place, uint d) {
  const KVFormat f = v_format();
  if (f.bits == 0 || early) {
    const uint dtype = early ? kv_start(f).dtype : f.dtype;
    float4 x;
    for (uint i = 0; i < 4; i++) {
      x[i] = kv_plain(dtype, page, (place + i) * head_dim + d);
    }
    return x;
  }
  device const uchar* strip = page + place / STRIP * STRIP * kv_row_bytes(f, head_dim);
  const uint g = d / v_group;
  const float4 scale = float4(*(device const half4*)((device const half*)strip + g * STRIP + place % STRIP));
  float4 bias = -float(v_zero) * scale;
  if (v_zero == 0) {
    bias = float4(*(device const half4*)((device const half*)strip + (head_dim / v_group + g) * STRIP + place % STRIP));
  }
  return fma(code_floats(v_codes(strip + kv_param_bytes(f, head_dim), v_bits, d, place % STRIP / 4)), scale, bias);
}

inline float merged(float a, float x, float b, float y) { return fma(a, x, b * y); }
