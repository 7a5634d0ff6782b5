#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], float x [[buffer(1)]], uint i [[thread_position_in_grid]]) { o[i] = x; }
// refused: a buffer is a device or constant pointer or reference
