#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { float a[2] = {1,2}; float* p = a; o[i] = p[1]; }
// refused: without an address space
