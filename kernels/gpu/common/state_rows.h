// What the recurrent kernels share that keep rows of a state in registers, four columns in a lane:
// loads, stores and rounding of these, and softplus. The types are those of state.h.
#pragma once
#include <metal_stdlib>
#include "common/state.h"
using namespace metal;

constant uint dtype [[function_constant(0)]];
constant bool wide [[function_constant(1)]];   // rows of more than 128 columns
// rows are multiples of 4 columns and aligned, so that four can be loaded at once
constant bool whole [[function_constant(2)]];

// Loads columns [c, c+4) of a row, zeros past its end. `at` is the index of column 0.
inline float4 load4_f32(device const float* x, ulong at, uint c, uint dk) {
  if (whole) {
    return c < dk ? *(device const float4*)(x + at + c) : float4(0.0f);
  }
  float4 v = float4(0.0f);
  for (uint i = 0; i < 4; i++) {
    if (c + i < dk) {
      v[i] = x[at + c + i];
    }
  }
  return v;
}

inline float4 load4(device const uchar* values, ulong at, uint c, uint dk) {
  if (dtype == STATE_F32) {
    return load4_f32((device const float*)values, at, c, dk);
  }
  float4 v = float4(0.0f);
  if (whole) {
    if (c < dk && dtype == STATE_BF16) {
      const ushort4 b = *(device const ushort4*)((device const ushort*)values + at + c);
      v = float4(from_bf16(b.x), from_bf16(b.y), from_bf16(b.z), from_bf16(b.w));
    } else if (c < dk) {
      v = float4(*(device const char4*)((device const char*)values + at + c));
    }
    return v;
  }
  for (uint i = 0; i < 4; i++) {
    if (c + i < dk) {
      v[i] = dtype == STATE_BF16 ? from_bf16(((device const ushort*)values)[at + c + i])
                               : float(((device const char*)values)[at + c + i]);
    }
  }
  return v;
}

// Stores columns [c, c+4) of a row. v must be rounded to the type already.
inline void store4(device uchar* values, ulong at, uint c, uint dk, float4 v) {
  if (whole) {
    if (c >= dk) {
      return;
    }
    if (dtype == STATE_F32) {
      *(device float4*)((device float*)values + at + c) = v;
    } else if (dtype == STATE_BF16) {
      *(device ushort4*)((device ushort*)values + at + c) = ushort4(
          to_bf16(v.x), to_bf16(v.y), to_bf16(v.z), to_bf16(v.w));
    } else {
      *(device char4*)((device char*)values + at + c) = char4(v);
    }
    return;
  }
  for (uint i = 0; i < 4; i++) {
    if (c + i >= dk) {
      return;
    }
    if (dtype == STATE_F32) {
      ((device float*)values)[at + c + i] = v[i];
    } else if (dtype == STATE_BF16) {
      ((device ushort*)values)[at + c + i] = to_bf16(v[i]);
    } else {
      ((device char*)values)[at + c + i] = char(v[i]);
    }
  }
}

inline float dot_onto(float sum, float4 a, float4 b) {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

inline float most_of(float4 v) { return max(max(fabs(v.x), fabs(v.y)), max(fabs(v.z), fabs(v.w))); }

inline float4 rounded_bf16(float4 v) {
  return float4(from_bf16(to_bf16(v.x)), from_bf16(to_bf16(v.y)), from_bf16(to_bf16(v.z)),
      from_bf16(to_bf16(v.w)));
}

inline float4 codes_of(float4 v, float inverse) {
  return float4(float(to_code(v.x, inverse)), float(to_code(v.y, inverse)),
      float(to_code(v.z, inverse)), float(to_code(v.w, inverse)));
}

// log(1 + e^x) without overflow: log(1 + u) for u in [0, 1] is 2 atanh(z) with z = u / (2 + u) <=
// 1/3, nine terms of its series (the next is under 1e-10).
inline float softplus(float x) {
  const float u = exp(-fabs(x));
  const float z = u / (2.0f + u);
  const float z2 = z * z;
  float s = 1.0f / 17.0f;
  s = fma(s, z2, 1.0f / 15.0f);
  s = fma(s, z2, 1.0f / 13.0f);
  s = fma(s, z2, 1.0f / 11.0f);
  s = fma(s, z2, 1.0f / 9.0f);
  s = fma(s, z2, 1.0f / 7.0f);
  s = fma(s, z2, 1.0f / 5.0f);
  s = fma(s, z2, 1.0f / 3.0f);
  return max(x, 0.0f) + fma(s * z2, z + z, z + z);
}
