// Pages of keys and values, as kernels/attention's cache.go and quantized.go lay them out: where a
// position's elements lie. What the layouts are is said there.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint STRIP = 16;   // positions of a strip; stripTokens

// A format: plain elements of a kernels.DType where bits is 0, else codes of bits bits, group of
// them to a scale, and zero the code of the value 0 where that is fixed and no bias is stored.
struct KVFormat {
  uint dtype;
  uint bits;
  uint group;
  uint zero;
};

// What one position of one head takes.
inline uint kv_row_bytes(KVFormat f, uint dims) {
  if (f.bits == 0) {
    return dims * (f.dtype == 0 ? 4 : 2);
  }
  return dims * f.bits / 8 + (f.zero == 0 ? 4 : 2) * (dims / f.group);
}

// How the beginning of a sequence is kept where others have f: attention's Format.AtStart.
inline KVFormat kv_start(KVFormat f) {
  if (f.bits != 0) {
    f.dtype = 1;
    f.bits = 0;
  }
  return f;
}

// The bytes that pages of the start are longer than others, all together: those lie so much further
// back than their numbers say.
inline ulong kv_start_bytes(KVFormat f, uint dims, uint heads, uint page_tokens, uint pages) {
  return ulong(pages) * heads * page_tokens * (kv_row_bytes(kv_start(f), dims) - kv_row_bytes(f, dims));
}

// The scales, and the biases, of a strip: what comes before its codes.
inline uint kv_param_bytes(KVFormat f, uint dims) { return STRIP * (f.zero == 0 ? 4 : 2) * (dims / f.group); }

// Codes of 3, 5 and 6 bits are cut into two planes.
inline uint kv_low(uint bits) { return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits; }

inline float kv_bf16(ushort bits) { return as_type<float>(uint(bits) << 16); }

inline float kv_plain(uint dtype, device const uchar* p, ulong i) {
  return dtype == 0 ? ((device const float*)p)[i] : dtype == 1 ? float(((device const half*)p)[i]) : kv_bf16(((device const ushort*)p)[i]);
}

// Four codes of four bytes of a word, and of the word of their upper plane; order says how far to
// the right each byte goes.
inline uint4 kv_codes(uint bits, uint word, uint upper, uint4 order) {
  const uint low = kv_low(bits);
  uint4 codes = (uint4(word) >> order) & ((1u << low) - 1);
  if (low < bits) {
    codes = codes | (((uint4(upper) >> order) & ((1u << (bits - low)) - 1)) << low);
  }
  return codes;
}

// K: codes of dimensions 4q to 4q+3 of 32 of a position, from its words of them: bits words, 64
// bytes apart. Dimensions are bytes of a word.
inline uint4 k_codes(thread const uint (&words)[8], uint bits, uint q) {
  const uint low = kv_low(bits);
  const uint high = bits - low;
  return kv_codes(bits, words[q * low / 8] >> (q * low % 8), low < bits ? words[low + q * high / 8] >> (q * high % 8) : 0, uint4(0, 8, 16, 24));
}

// The same; p is a strip's codes, at the place of the position.
inline uint4 k_codes_at(device const uchar* p, uint bits, uint q) {
  const uint low = kv_low(bits);
  const uint high = bits - low;
  p += q / 8 * 64 * bits;
  q %= 8;
  const uint word = *(device const uint*)(p + q * low / 8 * 64) >> (q * low % 8);
  return kv_codes(bits, word, low < bits ? *(device const uint*)(p + low * 64 + q * high / 8 * 64) >> (q * high % 8) : 0, uint4(0, 8, 16, 24));
}

// V: where the code of dimension d of 32 lies: which word of a plane that is width bits wide, and
// how far it goes to the right.
inline uint v_word(uint width, uint d) { return d % (4 * width); }
inline uint v_shift(uint width, uint d) { return d / (4 * width) * width; }

// V: codes of dimension dim of positions 4b to 4b+3 of a strip; p is the strip's codes. Positions
// are bytes 0, 2, 1 and 3.
inline uint4 v_order() { return uint4(0, 16, 8, 24); }

inline uint4 v_codes(device const uchar* p, uint bits, uint dim, uint b) {
  const uint low = kv_low(bits);
  const uint high = bits - low;
  device const uint* words = (device const uint*)(p + dim / 32 * 64 * bits + b * 16 * bits);
  const uint d = dim % 32;
  return kv_codes(bits, words[v_word(low, d)] >> v_shift(low, d), low < bits ? words[4 * low + v_word(high, d)] >> v_shift(high, d) : 0, v_order());
}

// Writing: the bytes of a position of a head are dims * bits / 8, and belong to it alone. Byte n
// lies at bytes from the strip's codes on, and holds fields of width bits of dimensions dim, dim +
// step, ..., shifted right by what lower planes hold.
struct KVByte {
  uint at;
  uint dim;
  uint step;
  uint width;
  uint shift;
};

inline KVByte kv_byte(bool keys, uint bits, uint n, uint lane) {
  const uint low = kv_low(bits);
  const uint bundle = n / (4 * bits);   // of 32 dimensions
  uint i = n % (4 * bits);
  const bool upper = i >= 4 * low;
  KVByte b;
  b.width = upper ? bits - low : low;
  b.shift = upper ? low : 0;
  i -= upper ? 4 * low : 0;
  if (keys) {   // rows of [16 positions][4 bytes]
    b.at = bundle * 64 * bits + b.shift * 64 + i / 4 * 64 + 4 * lane + i % 4;
    b.dim = bundle * 32 + i / 4 * 8 / b.width * 4 + i % 4;
    b.step = 4;
  } else {   // [4 width][4 positions]
    b.at = bundle * 64 * bits + lane / 4 * 16 * bits + b.shift * 16 + i * 4 + (lane % 4 == 1 ? 2 : lane % 4 == 2 ? 1 : lane % 4);
    b.dim = bundle * 32 + i;
    b.step = 4 * b.width;
  }
  return b;
}
