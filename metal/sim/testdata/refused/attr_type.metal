#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], int i [[thread_position_in_grid]]) { o[i] = 1; }
// refused: not a type for [[thread_position_in_grid]]
