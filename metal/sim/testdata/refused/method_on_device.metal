#include <metal_stdlib>
using namespace metal;
struct A { float x; float get() const { return x; } };
float f(device const A* a) { return a->get(); }
kernel void k(device float* o [[buffer(0)]], device const half* h [[buffer(1)]], constant float& c [[buffer(2)]], uint i [[thread_position_in_grid]]) { o[i] = f((device const A*)h); }
// refused: member function of an object
