#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], uint2 i [[thread_index_in_simdgroup]]) { o[i.x] = 1; }
// refused: not a type for [[thread_index_in_simdgroup]]
