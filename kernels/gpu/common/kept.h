// The forms in which kernels/recurrent keeps a state, as its state.go says, with the same bits.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Numbers of headroom/kernels.DType.
constant constexpr uint KEPT_F32 = 0;
constant constexpr uint KEPT_BF16 = 2;
constant constexpr uint KEPT_I8 = 5;

constant constexpr float LARGEST_CODE = 127.0f;
// keeps the scale of zeros, and its reciprocal, finite
constant constexpr float LEAST_AMAX = 1e-30f;

inline float from_bf16(ushort bits) { return as_type<float>(uint(bits) << 16); }

// x rounded to bfloat16, to nearest even, as its bits.
inline ushort to_bf16(float x) {
  const uint bits = as_type<uint>(x);
  return ushort((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The code of a value whose group has the factor inverse. An integer, since -0 is not kept.
inline int to_code(float x, float inverse) { return int(rint(x * inverse)); }
