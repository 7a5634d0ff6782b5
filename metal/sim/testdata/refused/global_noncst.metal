#include <metal_stdlib>
using namespace metal;
int g = 1;
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { o[i] = g; }
// refused: variable at program scope
