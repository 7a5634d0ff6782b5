// out = g * sigmoid(alpha * g) * (u + 1), where g is gate + bias, at most limit, and u is up + bias
// between -limit and limit, with the operations and bits of clamped_swiglu.c. Row r has the biases
// of expert ids[r]; a row of an expert that does not exist is NaN. Grid: a threadgroup per block of
// columns of a row; a thread takes one column, or four where rows begin and end at multiples of 16
// bytes. A thread reads only elements that it also writes, so out may be gate or up.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct ClampedSwiGLUParams {
  uint cols;  // in units of a thread's columns, as are the strides
  uint gate_stride;
  uint up_stride;
  uint out_stride;
  uint experts;
  float limit;
  float alpha;
};

inline float clamped_swiglu(float gate, float up, float limit, float alpha) {
  const float g = gate > limit ? limit : gate;  // NaN stays NaN
  const float u = up > limit ? limit : up < -limit ? -limit : up;
  return (g * sigmoid(alpha * g)) * (u + 1.0f);
}

inline float4 clamped_swiglu(float4 gate, float4 up, float limit, float alpha) {
  return float4(clamped_swiglu(gate.x, up.x, limit, alpha),
      clamped_swiglu(gate.y, up.y, limit, alpha), clamped_swiglu(gate.z, up.z, limit, alpha),
      clamped_swiglu(gate.w, up.w, limit, alpha));
}

template <typename T>
kernel void clamped_swiglu_rows(
    constant ClampedSwiGLUParams& p  [[buffer(0)]],
    device const T* gate             [[buffer(1)]],   // [M*k, cols]
    device const T* up               [[buffer(2)]],   // [M*k, cols]
    device const int* ids            [[buffer(3)]],   // [M*k]
    device const T* gate_bias        [[buffer(4)]],   // [experts, cols]
    device const T* up_bias          [[buffer(5)]],   // [experts, cols]
    device T* out                    [[buffer(6)]],   // [M*k, cols]
    uint2 group                      [[threadgroup_position_in_grid]],   // row, block of columns
    uint tid                         [[thread_index_in_threadgroup]],
    uint2 threads                    [[threads_per_threadgroup]]) {
  const ulong row = group.x;
  const uint c = group.y * threads.x + tid;
  if (c >= p.cols) {
    return;
  }
  const int id = ids[row];
  if (id < 0 || uint(id) >= p.experts) {
    out[row * p.out_stride + c] = T(NAN);
    return;
  }
  const ulong b = ulong(id) * p.cols + c;
  out[row * p.out_stride + c] = clamped_swiglu(gate[row * p.gate_stride + c] + gate_bias[b],
      up[row * p.up_stride + c] + up_bias[b], p.limit, p.alpha);
}

typedef decltype(clamped_swiglu_rows<float>) clamped_swiglu_1_t;
template [[host_name("clamped_swiglu_1")]] kernel clamped_swiglu_1_t clamped_swiglu_rows<float>;
typedef decltype(clamped_swiglu_rows<float4>) clamped_swiglu_4_t;
template [[host_name("clamped_swiglu_4")]] kernel clamped_swiglu_4_t clamped_swiglu_rows<float4>;
