// Pages of keys and values, as kernels/attention's cache.go and quantized.go lay them out: where a position's elements lie. What the
// layouts are is said there.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint STRIP = 16;   // positions of a strip; stripTokens

// A format: plain elements of a kernels.DType where bits is 0, else codes of bits bits, group of them to a scale, and zero the code of
// the value 0 where that is fixed and no bias is stored.
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

// The scales, and the biases, of a strip: what comes before its codes.
inline uint kv_param_bytes(KVFormat f, uint dims) { return STRIP * (f.zero == 0 ? 4 : 2) * (dims / f.group); }

// Codes of 3, 5 and 6 bits are cut into two planes.
inline uint kv_low(uint bits) { return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits; }

inline float kv_bf16(ushort bits) { return as_type<float>(uint(bits) << 16); }

inline float kv_plain(uint dtype, device const uchar* p, ulong i) {
  return dtype == 0 ? ((device const float*)p)[i] : dtype == 1 ? float(((device const half*)p)[i]) : kv_bf16(((device const ushort*)p)[i]);
}

// K: codes of dimensions 4q to 4q+3 of the position in place lane of a strip; p is the strip's codes.

inline uint4 k_plane(device const uchar* p, uint width, uint q, uint lane) {
  uint4 x = uint4(0);
  for (uint i = 0; i < 4; i++) {
    const uint j = q % 2 * 4 + i;
    x[i] = extract_bits(uint(p[j * width / 8 * STRIP + lane]), j * width % 8, width);
  }
  return x;
}

inline uint4 k_codes(device const uchar* p, uint bits, uint q, uint lane) {
  const uint low = kv_low(bits);
  p += q / 2 * STRIP * bits;
  uint4 x = k_plane(p, low, q, lane);
  if (low < bits) {
    x = x | (k_plane(p + low * STRIP, bits - low, q, lane) << low);
  }
  return x;
}

// V: codes of dimension dim of positions 4b to 4b+3 of a strip; p is the strip's codes.

inline uint v_plane(device const uchar* p, uint width, uint j) {
  switch (width) {
    case 8: return p[j];
    case 4: return extract_bits(uint(p[j % 16]), j / 16 * 4, 4);
  }
  return extract_bits(uint(p[j * width / 8]), j * width % 8, width);
}

inline uint4 v_codes(device const uchar* p, uint bits, uint dims, uint dim, uint b) {
  const uint low = kv_low(bits);
  uint4 x = uint4(0);
  for (uint i = 0; i < 4; i++) {
    device const uchar* at = p + (4 * b + i) * (dims * bits / 8) + dim / 32 * 4 * bits;
    x[i] = v_plane(at, low, dim % 32);
    if (low < bits) {
      x[i] |= v_plane(at + 4 * low, bits - low, dim % 32) << low;
    }
  }
  return x;
}

// Writing: the bytes of a position of a head are dims * bits / 8, and belong to it alone. Byte n lies at kv_byte_at from the strip's codes
// on, and holds fields of so many bits of dimensions dim, dim + step, ..., shifted right by what lower planes hold.

struct KVByte {
  uint at;
  uint dim;
  uint step;
  uint width;
  uint shift;
};

inline KVByte kv_byte(bool keys, uint bits, uint dims, uint n, uint lane) {
  const uint low = kv_low(bits);
  const uint per_bundle = keys ? bits : 4 * bits;   // bytes of a position in a bundle
  const uint bundle = n / per_bundle;
  uint i = n % per_bundle;
  const uint low_bytes = keys ? low : 4 * low;
  const bool upper = i >= low_bytes;
  KVByte b;
  b.width = upper ? bits - low : low;
  b.shift = upper ? low : 0;
  i -= upper ? low_bytes : 0;
  b.step = 1;
  b.dim = i * 8 / b.width;
  if (keys) {
    b.at = bundle * STRIP * bits + (upper ? low * STRIP : 0) + i * STRIP + lane;
    b.dim += bundle * 8;
  } else {
    b.at = lane * (dims * bits / 8) + n;
    if (b.width == 4) {
      b.dim = i;
      b.step = 16;
    }
    b.dim += bundle * 32;
  }
  return b;
}
