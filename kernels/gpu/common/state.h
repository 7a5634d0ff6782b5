// The storage types of a recurrent state, with the same bits as kernels/recurrent/state.go.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Values of headroom/kernels.DType.
constant constexpr uint STATE_F32 = 0;
constant constexpr uint STATE_BF16 = 2;
constant constexpr uint STATE_I8 = 5;

constant constexpr float LARGEST_CODE = 127.0f;
constant constexpr float LEAST_AMAX = 1e-30f;  // keeps the reciprocal of the scale of zeros finite

inline float from_bf16(ushort bits) { return as_type<float>(uint(bits) << 16); }

// Returns the bits of x rounded to bfloat16, to nearest even.
inline ushort to_bf16(float x) {
  const uint bits = as_type<uint>(x);
  return ushort((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Returns the int8 code of x. inverse is 127 / amax of its group.
inline int to_code(float x, float inverse) { return int(rint(x * inverse)); }
