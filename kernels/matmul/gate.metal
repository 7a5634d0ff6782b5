// out = silu(gate) * out, the end of a gated product whose two halves were multiplied separately,
// as in prefill. Grid: rows, then blocks of columns, a thread per element.
#include <metal_stdlib>
#include "common/exp.h"
using namespace metal;

struct GateParams {
  uint cols;
  uint gate_stride;
  uint out_stride;
};

kernel void gate(
    constant GateParams& p    [[buffer(0)]],
    device const float* gates [[buffer(1)]],   // [rows, cols]
    device float* out         [[buffer(2)]],   // [rows, cols]
    uint2 group               [[threadgroup_position_in_grid]],
    uint tid                  [[thread_index_in_threadgroup]],
    uint2 threads             [[threads_per_threadgroup]]) {
  const uint c = group.y * threads.x + tid;
  if (c < p.cols) {
    const ulong at = ulong(group.x) * p.out_stride + c;
    out[at] = silu(gates[ulong(group.x) * p.gate_stride + c]) * out[at];
  }
}
