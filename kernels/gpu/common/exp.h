// e^x, functions of it and tanh x, computed with fused multiply-adds only. Every device gives the
// same bits, which are those of the CPU kernels (v_exp and v_tanh in kernels/common/simd.h).
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

// Returns tanh x, as v_tanh does. The relative error is below 4e-7, and NaN gives NaN.
inline float tanh_portable(float x) {
  x = x < -9.0f ? -9.0f : x > 9.0f ? 9.0f : x;
  const float t = x * x;
  float p = 1.3336853467e-8f;
  p = fma(p, t, 2.0596282892e-5f);
  p = fma(p, t, 3.4948118139e-3f);
  p = fma(p, t, 1.3380372309e-1f);
  p = fma(p, t, 1.0f);
  float q = 7.7692867147e-7f;
  q = fma(q, t, 3.2843643242e-4f);
  q = fma(q, t, 2.5874029872e-2f);
  q = fma(q, t, 4.6713687730e-1f);
  q = fma(q, t, 1.0f);
  return x * p / q;
}
