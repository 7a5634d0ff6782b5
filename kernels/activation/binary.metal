// out = f(x, y) element by element, with the same operations and bits as binary.c.
//
// Grid: a threadgroup computes a block of columns of one row. A thread has one element, or four if
// rows begin and end at multiples of 16 bytes. A thread reads only elements that it also writes,
// so out may be x or y.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct BinaryParams {
  uint cols;  // in elements of type T, like the strides
  uint x_stride;
  uint y_stride;
  uint out_stride;
};

// Values of activation.function.
constant int operation [[function_constant(0)]];

// The tanh approximation, as in gelu_mul.go: (1 + tanh z) / 2 is sigmoid(2z).
inline float gelu(float x) {
  const float z = (1.59576912f * x) * fma(0.044715f * x, x, 1.0f);
  return x * sigmoid(z);
}

// With the error function, as v_gelu_erf of binary.c.
inline float gelu_erf(float x) {
  const float a = x < 0.0f ? -x : x;
  const float z = a * 0.70710678f;
  const float t = 1.0f / fma(z, 0.3275911f, 1.0f);
  float p = 1.061405429f;
  p = fma(p, t, -1.453152027f);
  p = fma(p, t, 1.421413741f);
  p = fma(p, t, -0.284496736f);
  p = fma(p, t, 0.254829592f);
  const float small = p * t * 0.5f * exp_portable(-z * z);
  return fma(-a, small, x < 0.0f ? 0.0f : x);
}

inline float apply(float x, float y) {
  switch (operation) {
    case 0: return x * sigmoid(y);
    case 1: return x + y;
    case 2: return gelu(x) * y;
    case 3: return x * sigmoid(x) * y;
    case 5: return gelu_erf(x) * y;
    case 6: return (x < 0.0f ? 0.0f : x) * y;
    default: return x * y;
  }
}

inline float4 apply(float4 x, float4 y) {
  return float4(apply(x.x, y.x), apply(x.y, y.y), apply(x.z, y.z), apply(x.w, y.w));
}

template <typename T>
kernel void binary(
    constant BinaryParams& p  [[buffer(0)]],
    device const T* x         [[buffer(1)]],   // [M, cols]
    device const T* y         [[buffer(2)]],   // [M, cols]
    device T* out             [[buffer(3)]],   // [M, cols]
    uint2 group               [[threadgroup_position_in_grid]],   // row, block of columns
    uint tid                  [[thread_index_in_threadgroup]],
    uint2 threads             [[threads_per_threadgroup]]) {
  const ulong row = group.x;
  const uint c = group.y * threads.x + tid;
  if (c < p.cols) {
    out[row * p.out_stride + c] = apply(x[row * p.x_stride + c], y[row * p.y_stride + c]);
  }
}

typedef decltype(binary<float>) binary_1_t;
template [[host_name("binary_1")]] kernel binary_1_t binary<float>;
typedef decltype(binary<float4>) binary_4_t;
template [[host_name("binary_4")]] kernel binary_4_t binary<float4>;
