#include <metal_stdlib>
using namespace metal;
kernel int k(device float* o [[buffer(0)]]) { return 1; }
// refused: kernel k returns int
