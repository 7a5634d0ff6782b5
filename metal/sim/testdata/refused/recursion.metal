#include <metal_stdlib>
using namespace metal;
int f(int n) { return n ? f(n - 1) + n : 0; }
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { o[i] = f(3); }
// refused: f calls itself
