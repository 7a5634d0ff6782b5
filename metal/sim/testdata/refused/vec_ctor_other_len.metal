#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { float4 v = float4(float2(1.0f)); o[i] = v.x; }
// refused: from a vector of another length
