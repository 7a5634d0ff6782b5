// Copies units of 1 or 16 bytes within a buffer. A thread copies PER_THREAD units that are the
// width of its threadgroup apart.
#include <metal_stdlib>
using namespace metal;

struct CopyParams {
  uint units;
  uint from;  // first unit in each operand, because bindings begin at multiples of four bytes
  uint to;
};

constant constexpr uint PER_THREAD = 4;

template <typename T>
kernel void copy(
    constant CopyParams& p   [[buffer(0)]],
    device const T* source   [[buffer(1)]],
    device T* target         [[buffer(2)]],
    uint group               [[threadgroup_position_in_grid]],
    uint tid                 [[thread_index_in_threadgroup]],
    uint threads             [[threads_per_threadgroup]]) {
  const uint first = group * threads * PER_THREAD + tid;
  for (uint i = 0; i < PER_THREAD; i++) {
    const uint unit = first + i * threads;
    if (unit < p.units) {
      target[p.to + unit] = source[p.from + unit];
    }
  }
}

typedef decltype(copy<uchar>) copy_1_t;
template [[host_name("copy_1")]] kernel copy_1_t copy<uchar>;
typedef decltype(copy<uint4>) copy_16_t;
template [[host_name("copy_16")]] kernel copy_16_t copy<uint4>;
