// Shared code of the attention kernels (kernels/attention): parameters, masks, and the decoding of
// keys and values to float.
#pragma once
#include <metal_stdlib>
#include "common/exp.h"
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
// Nonzero if the first start_tokens positions have the format of kv_start.
constant uint has_start [[function_constant(10)]];
// Nonzero if scores have a cap.
constant uint has_cap [[function_constant(11)]];

constant constexpr float LOWEST = -3.0e38f;

struct AttentionParams {
  uint kv_heads;
  uint group;
  uint page_tokens;
  uint q_stride;
  uint out_stride;
  uint window;
  uint sink_tokens;
  uint following;      // positions after its own that a row sees in its span
  uint start_tokens;   // a multiple of 512
  uint start_pages;
  uint has_sinks;
  uint spans;
  float scale;
  float cap;
};

struct AttentionSpan {
  int row;
  int rows;
  int pos;
  int pages;      // offset of its page table after the spans
  int block;      // number of vector blocks before it
  int segments;   // number of segments with records, 0 if the span is not split
  int segment;    // first segment after that of the sinks
  int record;     // number of record blocks before it
};

// The positions that a block or a vector attends to in its segment: [from, to), and the attention
// sinks [0, sinks) if the window starts after them.
struct Seen {
  uint from;
  uint to;
  uint sinks;
};

inline uint seen_from(uint window, uint sink_tokens, uint pos) {
  return window == 0 || pos + 1 <= window ? 0 : max(sink_tokens, pos + 1 - window);
}

// Returns the position after the last one that the row at pos sees.
inline uint seen_to(constant AttentionParams& p, device const AttentionSpan* span, uint pos) {
  return min(pos + 1 + p.following, uint(span->pos + span->rows));
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

// Reports whether the position is among the first start_tokens. The answer is the same for all
// positions of its tile, and of its segment of 256.
inline bool is_early(constant AttentionParams& p, uint pos) {
  return has_start != 0 && pos < p.start_tokens;
}

// Returns a head's page of keys or values. `early` says that it is a page of the
// first start_tokens positions.
inline device const uchar* head_page(device const uchar* pages, KVFormat f,
                                     constant AttentionParams& p, bool early, int page, uint head) {
  if (early) {
    f = kv_start(f);
  } else if (has_start != 0) {
    pages += kv_start_bytes(f, head_dim, p.kv_heads, p.page_tokens, p.start_pages);
  }
  return pages + (ulong(page) * p.kv_heads + head) * p.page_tokens * kv_row_bytes(f, head_dim);
}

// Returns codes - center as floats, exactly. It puts a code in the low bits of 2^23 and subtracts
// 2^23, which is cheaper than a conversion where conversions do not run at full rate.
inline float4 code_floats(uint4 codes, uint center) {
  return as_type<float4>(codes | 0x4b000000u) - (8388608.0f + float(center));
}

// Returns the code that is subtracted from all codes: the zero point, or the middle code, which
// keeps sums of codes small.
inline uint code_center(uint bits, uint zero) { return zero == 0 ? 1u << (bits - 1) : zero; }

// The value of code c is scale * (c - center) + bias. Formats with a stored bias have their biases
// in params from index biases on.
struct CodeScale {
  float scale;
  float bias;
};

inline CodeScale code_scale(device const half* params, uint i, uint biases, uint bits, uint zero) {
  CodeScale s;
  s.scale = float(params[i]);
  s.bias =
      zero == 0 ? fma(float(code_center(bits, zero)), s.scale, float(params[biases + i])) : 0.0f;
  return s;
}

// Report whether K or V is quantized to codes with scales. Other formats, and the first
// start_tokens, are plain elements.
inline bool k_coded(bool early) { return k_bits != 0 && !early; }
inline bool v_coded(bool early) { return v_bits != 0 && !early; }

// Return the strip of a head's page that holds position place of the page.
inline device const uchar* k_strip(device const uchar* page, uint place) {
  return page + place / STRIP * STRIP * kv_row_bytes(k_format(), head_dim);
}
inline device const uchar* v_strip(device const uchar* page, uint place) {
  return page + place / STRIP * STRIP * kv_row_bytes(v_format(), head_dim);
}

// Returns dimensions 4q to 4q+3 of K at position place of a head's page of plain elements.
inline float4 k_numbers(device const uchar* page, bool early, uint page_tokens, uint place,
                        uint q) {
  const uint dtype = early ? kv_start(k_format()).dtype : k_dtype;
  float4 x;
  for (uint i = 0; i < 4; i++) {
    x[i] = kv_plain(dtype, page, (4 * q + i) * page_tokens + place);
  }
  return x;
}

// Returns the scale of group g of K at position place of a strip.
inline CodeScale k_scale(device const uchar* strip, uint place, uint g) {
  return code_scale((device const half*)strip, g * STRIP + place, head_dim / k_group * STRIP,
                    k_bits, k_zero);
}

// Returns dimension d of V in rows row to row+3 of plain elements.
inline float4 v_numbers(device const uchar* rows, bool early, ulong row, uint d) {
  const uint dtype = early ? kv_start(v_format()).dtype : v_dtype;
  float4 x;
  for (uint i = 0; i < 4; i++) {
    x[i] = kv_plain(dtype, rows, (row + i) * head_dim + d);
  }
  return x;
}

inline CodeScale v_scale(device const uchar* strip, uint place, uint g) {
  return code_scale((device const half*)strip, g * STRIP + place, head_dim / v_group * STRIP,
                    v_bits, v_zero);
}

// Return dimensions 4q to 4q+3 of K at one position, and dimension d of V at positions place to
// place+3, in any format.
inline float4 k_values(device const uchar* page, bool early, uint page_tokens, uint place, uint q) {
  if (!k_coded(early)) {
    return k_numbers(page, early, page_tokens, place, q);
  }
  device const uchar* strip = k_strip(page, place);
  const CodeScale s = k_scale(strip, place % STRIP, 4 * q / k_group);
  const uint4 codes =
      k_codes_at(strip + kv_param_bytes(k_format(), head_dim) + 4 * (place % STRIP), k_bits, q);
  return fma(code_floats(codes, code_center(k_bits, k_zero)), float4(s.scale), float4(s.bias));
}

inline float4 v_values(device const uchar* page, bool early, uint place, uint d) {
  if (!v_coded(early)) {
    return v_numbers(page, early, place, d);
  }
  device const uchar* strip = v_strip(page, place);
  float4 scale;
  float4 bias;
  for (uint i = 0; i < 4; i++) {
    const CodeScale s = v_scale(strip, place % STRIP + i, d / v_group);
    scale[i] = s.scale;
    bias[i] = s.bias;
  }
  const uint4 codes =
      v_codes(strip + kv_param_bytes(v_format(), head_dim), v_bits, d, place % STRIP / 4);
  return fma(code_floats(codes, code_center(v_bits, v_zero)), scale, bias);
}

// Returns a score after the cap, if there is one.
inline float capped(constant AttentionParams& p, float x) {
  return has_cap == 0 ? x : p.cap * tanh_portable(x * (1.0f / p.cap));
}

inline float merged(float a, float x, float b, float y) { return fma(a, x, b * y); }
