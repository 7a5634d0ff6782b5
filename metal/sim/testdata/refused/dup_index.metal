#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], device float* q [[buffer(0)]], uint i [[thread_position_in_grid]]) { o[i] = q[i]; }
// refused: buffer(0) is taken by o
