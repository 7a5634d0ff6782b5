#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(31)]], uint i [[thread_position_in_grid]]) { o[i] = 1; }
// refused: buffer(31), expected a literal index from 0 to 30
