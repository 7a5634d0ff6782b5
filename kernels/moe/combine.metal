// out = sum over j of weights[j] * experts[j] + sigmoid(gate) * shared for a token. Experts are
// added in the order of choice, so an element is one chain of fused multiply-adds with the bits of
// combine.c. With a bias, a row of it is added to each row of experts first. Grid: a threadgroup
// per block of columns of a token; a thread takes one column, or four where rows begin and end at
// multiples of 16 bytes. out may be shared.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct CombineParams {
  uint cols;  // in units of a thread's columns, as are the strides of tensors with cols
  uint chosen;
  uint experts_stride;
  uint shared_stride;
  uint gate_stride;
  uint out_stride;
  uint has_shared;
  uint has_gate;
  uint biases;  // rows of bias, 0 if there is none
};

template <typename T>
kernel void combine(
    constant CombineParams& p    [[buffer(0)]],
    device const T* experts      [[buffer(1)]],   // [M*chosen, cols]
    device const float* weights  [[buffer(2)]],   // [M, chosen]
    device const T* shared       [[buffer(3)]],   // [M, cols], or nothing
    device const float* gate     [[buffer(4)]],   // [M], or nothing
    device const T* bias         [[buffer(5)]],   // [biases, cols], or nothing
    device const int* ids        [[buffer(6)]],   // [M, chosen], or nothing
    device T* out                [[buffer(7)]],   // [M, cols]
    uint2 group                  [[threadgroup_position_in_grid]],   // token, block of columns
    uint tid                     [[thread_index_in_threadgroup]],
    uint2 threads                [[threads_per_threadgroup]]) {
  const ulong token = group.x;
  const uint c = group.y * threads.x + tid;
  if (c >= p.cols) {
    return;
  }
  experts += token * p.chosen * p.experts_stride + c;
  weights += token * p.chosen;
  T sum = T(0.0f);
  for (uint j = 0; j < p.chosen; j++) {
    T x = experts[ulong(j) * p.experts_stride];
    if (p.biases != 0) {
      const uint id = uint(ids[token * p.chosen + j]);
      if (id < p.biases) {
        x = x + bias[ulong(id) * p.cols + c];
      }
    }
    sum = fma(T(weights[j]), x, sum);
  }
  if (p.has_shared != 0) {
    const float g = p.has_gate != 0 ? sigmoid(gate[token * p.gate_stride]) : 1.0f;
    sum = fma(T(g), shared[token * p.shared_stride + c], sum);
  }
  out[token * p.out_stride + c] = sum;
}

typedef decltype(combine<float>) combine_1_t;
template [[host_name("combine_1")]] kernel combine_1_t combine<float>;
typedef decltype(combine<float4>) combine_4_t;
template [[host_name("combine_4")]] kernel combine_4_t combine<float4>;
