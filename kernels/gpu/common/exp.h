// e^x and functions of it, computed with fused multiply-adds only. Every device gives the same
// bits, which are those of the CPU kernels (v_exp in kernels/common/simd.h).
#pragma once
#include <metal_stdlib>
using namespace metal;

// Returns e^x. With x = n ln2 + r it scales a polynomial of degree 6 in r (Cephes) by 2^n. The
// relative error is below 2e-7 over [-87, 88]; smaller x gives e^-87, larger x gives e^88. NaN
// gives NaN.
inline float exp_portable(float x) {
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const float n = rint(x * 1.44269504f);
  float r = fma(-n, 0.693359375f, x);
  r = fma(-n, -2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p * r, r, r + 1.0f);
  return p * as_type<float>((int(n) + 127) << 23);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp_portable(-x)); }

inline float silu(float x) { return x * sigmoid(x); }
