#include <metal_stdlib>
using namespace metal;
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { simdgroup_float8x8 m; simdgroup_load(m, h); o[i] = 1; }
// refused: no matching function for call to 'simdgroup_load'
