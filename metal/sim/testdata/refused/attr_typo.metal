#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], uint i [[thread_position_in_gird]]) { o[i] = 1; }
// refused: unknown attribute thread_position_in_gird
