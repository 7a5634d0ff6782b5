// Weights as checkpoints pack them (kernels.Weight), read in units of 32 elements. Units begin at
// multiples of 32, and groups are 32, 64 or 128 elements, so a unit has one scale and one bias.
// A unit of codes of B bits is exactly B words.
//
// A dtype is the kernels.DType of plain elements, or of scales and biases. DTYPE_E8M0 means MXFP4
// or MXFP8, whose scales are bytes and which have no biases. DTYPE_E4M3 means NVFP4 for codes of 4
// bits, and FP8 for codes of 8 bits (gpu.Weight.DType). Rows of plain elements may have any
// length and begin at any element. `aligned` means that 16-byte loads are possible.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant constexpr uint DTYPE_F32 = 0;
constant constexpr uint DTYPE_F16 = 1;
constant constexpr uint DTYPE_BF16 = 2;
constant constexpr uint DTYPE_E8M0 = 6;
constant constexpr uint DTYPE_E4M3 = 7;

inline float bfloat_value(uint bits) { return as_type<float>(bits << 16); }

// Returns element i of an array of dtype.
inline float load_element(device const uchar* p, uint dtype, ulong i) {
  if (dtype == DTYPE_F32) {
    return ((device const float*)p)[i];
  }
  if (dtype == DTYPE_F16) {
    return float(((device const half*)p)[i]);
  }
  return bfloat_value(((device const ushort*)p)[i]);
}

// Eight consecutive elements, as two vectors.
struct Eight {
  float4 lo;
  float4 hi;
};

inline Eight load_floats(device const float* p, bool aligned) {
  Eight e;
  if (aligned) {
    e.lo = *(device const float4*)p;
    e.hi = *(device const float4*)(p + 4);
  } else {
    e.lo = float4(p[0], p[1], p[2], p[3]);
    e.hi = float4(p[4], p[5], p[6], p[7]);
  }
  return e;
}

// Returns four consecutive elements, with zeros from index `valid` on.
inline float4 load_four(device const float* p, uint valid, bool aligned) {
  if (valid >= 4 && aligned) {
    return *(device const float4*)p;
  }
  float4 v = float4(0.0f);
#pragma clang loop unroll(full)
  for (uint j = 0; j < 4; j++) {
    if (j < valid) {
      v[j] = p[j];
    }
  }
  return v;
}

// Returns the values of eight elements of 16 bits.
inline Eight eight_of(uint4 w, uint dtype) {
  Eight e;
  if (dtype == DTYPE_F16) {
    e.lo = float4(float2(as_type<half2>(w.x)), float2(as_type<half2>(w.y)));
    e.hi = float4(float2(as_type<half2>(w.z)), float2(as_type<half2>(w.w)));
  } else {
    e.lo = float4(bfloat_value(w.x), as_type<float>(w.x & 0xffff0000u), bfloat_value(w.y),
                  as_type<float>(w.y & 0xffff0000u));
    e.hi = float4(bfloat_value(w.z), as_type<float>(w.z & 0xffff0000u), bfloat_value(w.w),
                  as_type<float>(w.w & 0xffff0000u));
  }
  return e;
}

// Returns elements [i, i+8) of an array of dtype, with zeros from index i+valid on.
inline Eight load_eight(device const uchar* p, uint dtype, ulong i, uint valid, bool aligned) {
  if (valid >= 8 && aligned) {
    if (dtype == DTYPE_F32) {
      return load_floats((device const float*)p + i, true);
    }
    return eight_of(*(device const uint4*)((device const ushort*)p + i), dtype);
  }
  Eight e;
  e.lo = float4(0.0f);
  e.hi = float4(0.0f);
  for (uint j = 0; j < 4; j++) {
    if (j < valid) {
      e.lo[j] = load_element(p, dtype, i + j);
    }
    if (j + 4 < valid) {
      e.hi[j] = load_element(p, dtype, i + j + 4);
    }
  }
  return e;
}

// The codes of a unit.
template <int B> struct Codes {
  uint words[B];
};

template <int B> inline Codes<B> load_codes(device const uint* p, bool aligned) {
  Codes<B> c;
  if (aligned && B % 4 == 0) {
    for (int i = 0; i < B / 4; i++) {
      const uint4 w = ((device const uint4*)p)[i];
      c.words[4 * i] = w.x;
      c.words[4 * i + 1] = w.y;
      c.words[4 * i + 2] = w.z;
      c.words[4 * i + 3] = w.w;
    }
  } else if (aligned && B % 2 == 0) {
    for (int i = 0; i < B / 2; i++) {
      const uint2 w = ((device const uint2*)p)[i];
      c.words[2 * i] = w.x;
      c.words[2 * i + 1] = w.y;
    }
  } else {
    for (int i = 0; i < B; i++) {
      c.words[i] = p[i];
    }
  }
  return c;
}

// Returns the code in bits [at, at + B) of a word as a float, for constant B and at. The bits stay
// where they are, as the lowest of the fraction of a power of two in whose steps the code counts,
// and the power is subtracted: two instructions at full rate. Codes that reach the exponent are
// moved down first, those of a word by the same distance, so that one shift serves them all.
template <int B> inline float code_in_place(uint word, int at) {
  if (at + B > 23) {
    word >>= 16;
    at -= 16;
  }
  const uint power = uint(150 - at) << 23;   // 2^(23 - at)
  return as_type<float>((word & (((1u << B) - 1u) << at)) | power) - as_type<float>(power);
}

// Returns code i of a unit as a float, for a constant i.
template <int B> inline float code_value(Codes<B> c, int i) {
  const int bit = i * B;
  const int shift = bit % 32;
  if (shift + B <= 32) {
    return code_in_place<B>(c.words[bit / 32], shift);
  }
  const uint v = c.words[bit / 32] >> shift | c.words[(bit + B - 1) / 32] << (32 - shift);
  return code_in_place<B>(v, 0);
}

// Decodes eight MXFP4 codes. A code has the bits of a half that is 2^14 times smaller: its sign,
// three zeros, its three other bits, and nine zeros; 0.5 is subnormal in both formats. Two codes
// that are four apart are decoded in one word.
inline Eight decode_e2m1(uint word, float scale) {
  Eight e;
#pragma clang loop unroll(full)
  for (int j = 0; j < 4; j++) {
    const uint w = word >> (4 * j);
    const half2 v =
        as_type<half2>((w & 0x00080008u) << 12 | (w & 0x00070007u) << 9) * half(16384.0f);
    e.lo[j] = float(v.x) * scale;
    e.hi[j] = float(v.y) * scale;
  }
  return e;
}

// Returns the values of two MXFP8 codes, in the low bytes of the halves of a word. A code has the
// bits of a half that is 2^8 times smaller: its sign, a zero, its other bits, and seven zeros. A
// code of NaN carries into the place of the zero.
inline half2 e4m3_values(uint w) {
  const uint magnitudes = w & 0x007f007fu;
  return as_type<half2>((w & 0x00800080u) << 8 | magnitudes << 7 |
                        ((magnitudes + 0x00010001u) << 7 & 0x40004000u)) * half(256.0f);
}

// Decodes eight MXFP8 codes.
inline Eight decode_e4m3(uint lo, uint hi, float scale) {
  const half2 a = e4m3_values(lo);
  const half2 b = e4m3_values(lo >> 8);
  const half2 c = e4m3_values(hi);
  const half2 d = e4m3_values(hi >> 8);
  Eight e;
  e.lo = float4(float(a.x), float(b.x), float(a.y), float(b.y)) * scale;
  e.hi = float4(float(c.x), float(d.x), float(c.y), float(d.y)) * scale;
  return e;
}

// What turns the codes of a unit into elements.
struct Params {
  float scale;   // of the unit, or of its first 16 elements in NVFP4
  float bias;    // or the scale of the last 16 elements in NVFP4
};

// Loads the parameters of a unit, in group g of a row whose scales and biases begin at the given
// elements.
template <int B>
inline Params load_params(device const uchar* scales, ulong scales_at, device const uchar* biases,
                          ulong biases_at, uint unit, uint g, uint dtype) {
  Params p;
  p.bias = 0.0f;
  if (B == 4 && dtype == DTYPE_E4M3) {
    device const uchar* two = scales + scales_at + 2 * unit;
    const half2 values = e4m3_values(uint(two[0]) | uint(two[1]) << 16);
    const float row_scale = ((device const float*)biases)[biases_at];
    p.scale = float(values.x) * row_scale;
    p.bias = float(values.y) * row_scale;
  } else if (dtype == DTYPE_E4M3) {
    p.scale = ((device const float*)scales)[scales_at + g];
  } else if (dtype == DTYPE_E8M0) {
    // The exponent of a float, except that 0 is 2^-127, a subnormal float with only the highest bit
    // of the fraction.
    p.scale = as_type<float>(max(uint(scales[scales_at + g]) << 23, 1u << 22));
  } else {
    p.scale = load_element(scales, dtype, scales_at + g);
    p.bias = load_element(biases, dtype, biases_at + g);
  }
  return p;
}

// Decodes codes [8 part, 8 part + 8) of a unit: code * scale + bias, rounded once.
template <int B>
inline Eight decode_eight(Codes<B> c, int part, Params p, uint dtype) {
  const float scale = p.scale;
  const float bias = p.bias;
  if (B == 4 && dtype == DTYPE_E8M0) {
    return decode_e2m1(c.words[part * B / 4], scale);
  }
  if (B == 4 && dtype == DTYPE_E4M3) {
    return decode_e2m1(c.words[part * B / 4], part < 2 ? scale : bias);
  }
  if (B == 8 && dtype >= DTYPE_E8M0) {   // B / 8: for other B the index must exist too
    return decode_e4m3(c.words[part * B / 4], c.words[part * B / 4 + B / 8], scale);
  }
  Eight e;
#pragma clang loop unroll(full)
  for (int j = 0; j < 4; j++) {
    e.lo[j] = fma(code_value<B>(c, 8 * part + j), scale, bias);
    e.hi[j] = fma(code_value<B>(c, 8 * part + 4 + j), scale, bias);
  }
  return e;
}

// Decodes elements 2 pair and 2 pair + 1 of each four among codes [8 part, 8 part + 8) of a unit of
// 4 bits, to the values that decode_eight gives them.
inline void decode_pairs(thread float2& lo, thread float2& hi, Codes<4> c, int part, uint pair,
                         Params p, uint dtype) {
  const uint w = c.words[part] >> (8 * pair);
  if (dtype >= DTYPE_E8M0) {
    const Eight e = decode_e2m1(w, dtype == DTYPE_E8M0 || part < 2 ? p.scale : p.bias);
    lo = e.lo.xy;
    hi = e.hi.xy;
    return;
  }
  lo = float2(fma(code_in_place<4>(w, 0), p.scale, p.bias),
              fma(code_in_place<4>(w, 4), p.scale, p.bias));
  hi = float2(fma(code_in_place<4>(w, 16), p.scale, p.bias),
              fma(code_in_place<4>(w, 20), p.scale, p.bias));
}
