#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { float4 v = half4(1.0h); o[i] = v.x; }
// refused: cannot initialize a variable
