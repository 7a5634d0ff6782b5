// Addresses of elements in pages of keys and values. cache.go and quantized.go in kernels/attention
// define the layouts.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint STRIP = 16;   // positions in a strip, as stripTokens in Go

// The format of keys or values. If bits is 0 they are plain elements of a kernels.DType. Otherwise
// they are codes of that many bits, and each group of `group` codes shares a scale. zero is the
// fixed zero point, or 0 if biases are stored.
struct KVFormat {
  uint dtype;
  uint bits;
  uint group;
  uint zero;
};

// Returns the bytes of one position of one head.
inline uint kv_row_bytes(KVFormat f, uint dims) {
  if (f.bits == 0) {
    return dims * (f.dtype == 0 ? 4 : 2);
  }
  return dims * f.bits / 8 + (f.zero == 0 ? 4 : 2) * (dims / f.group);
}

// Returns the format of the first positions where all others have f, as Format.AtStart in Go.
inline KVFormat kv_start(KVFormat f) {
  if (f.bits != 0) {
    f.dtype = 1;
    f.bits = 0;
  }
  return f;
}

// Returns how many bytes longer the given number of start pages is than as many other pages. All
// later pages are shifted by that many bytes.
inline ulong kv_start_bytes(KVFormat f, uint dims, uint heads, uint page_tokens, uint pages) {
  return ulong(pages) * heads * page_tokens *
         (kv_row_bytes(kv_start(f), dims) - kv_row_bytes(f, dims));
}

// Returns the bytes of a strip's scales and biases, which precede its codes.
inline uint kv_param_bytes(KVFormat f, uint dims) {
  return STRIP * (f.zero == 0 ? 4 : 2) * (dims / f.group);
}

// Returns the width of the lower plane. Codes of 3, 5 and 6 bits are split into two planes.
inline uint kv_low(uint bits) { return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits; }

inline float kv_bf16(ushort bits) { return as_type<float>(uint(bits) << 16); }

inline float kv_plain(uint dtype, device const uchar* p, ulong i) {
  return dtype == 0   ? ((device const float*)p)[i]
         : dtype == 1 ? float(((device const half*)p)[i])
                      : kv_bf16(((device const ushort*)p)[i]);
}

// Returns four codes, one from each byte of word, with their high bits from the same bytes of
// upper. order holds the right shift for each byte.
inline uint4 kv_codes(uint bits, uint word, uint upper, uint4 order) {
  const uint low = kv_low(bits);
  uint4 codes = (uint4(word) >> order) & ((1u << low) - 1);
  if (low < bits) {
    codes = codes | (((uint4(upper) >> order) & ((1u << (bits - low)) - 1)) << low);
  }
  return codes;
}

// Returns the codes of dimensions 4q to 4q+3 of a block of 32 dimensions of K at one position.
// words holds the position's `bits` words of the block, which are 64 bytes apart in memory. Each
// byte of a word belongs to one dimension.
inline uint4 k_codes(thread const uint (&words)[8], uint bits, uint q) {
  const uint low = kv_low(bits);
  const uint high = bits - low;
  return kv_codes(bits, words[q * low / 8] >> (q * low % 8),
                  low < bits ? words[low + q * high / 8] >> (q * high % 8) : 0,
                  uint4(0, 8, 16, 24));
}

// Like k_codes, for any q. p points to the first word of the position in a strip's codes.
inline uint4 k_codes_at(device const uchar* p, uint bits, uint q) {
  const uint low = kv_low(bits);
  const uint high = bits - low;
  p += q / 8 * 64 * bits;
  q %= 8;
  const uint word = *(device const uint*)(p + q * low / 8 * 64) >> (q * low % 8);
  return kv_codes(bits, word,
                  low < bits ? *(device const uint*)(p + low * 64 + q * high / 8 * 64) >>
                                   (q * high % 8)
                             : 0,
                  uint4(0, 8, 16, 24));
}

// Return the word, and the right shift in it, of the code of V's dimension d of 32, in a plane that
// has the given width in bits.
inline uint v_word(uint width, uint d) { return d % (4 * width); }
inline uint v_shift(uint width, uint d) { return d / (4 * width) * width; }

// Returns the right shifts of four consecutive positions of V, which are in bytes 0, 2, 1 and 3.
inline uint4 v_order() { return uint4(0, 16, 8, 24); }

// Returns the codes of V's dimension dim at positions 4b to 4b+3 of a strip. p points to the
// strip's codes.
inline uint4 v_codes(device const uchar* p, uint bits, uint dim, uint b) {
  const uint low = kv_low(bits);
  const uint high = bits - low;
  device const uint* words = (device const uint*)(p + dim / 32 * 64 * bits + b * 16 * bits);
  const uint d = dim % 32;
  return kv_codes(bits, words[v_word(low, d)] >> v_shift(low, d),
                  low < bits ? words[4 * low + v_word(high, d)] >> v_shift(high, d) : 0,
                  v_order());
}

// KVByte describes one byte of codes to write. A position of a head has dims * bits / 8 bytes and
// shares none with other positions. The byte is at offset `at` in the strip's codes. It holds
// fields of `width` bits, from the codes of dimensions dim, dim + step, ..., each shifted right by
// `shift` bits.
struct KVByte {
  uint at;
  uint dim;
  uint step;
  uint width;
  uint shift;
};

inline KVByte kv_byte(bool keys, uint bits, uint n, uint lane) {
  const uint low = kv_low(bits);
  const uint bundle = n / (4 * bits);   // a block of 32 dimensions
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
    b.at = bundle * 64 * bits + lane / 4 * 16 * bits + b.shift * 16 + i * 4 +
           (lane % 4 == 1   ? 2
            : lane % 4 == 2 ? 1
                            : lane % 4);
    b.dim = bundle * 32 + i;
    b.step = 4 * b.width;
  }
  return b;
}
