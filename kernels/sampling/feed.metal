// out[m] = tokens[m], or chosen[-1 - tokens[m]] if tokens[m] is negative. A thread copies one
// token.
#include <metal_stdlib>
using namespace metal;

struct FeedParams {
  uint rows;
  uint chosen_stride;
  uint out_stride;
};

kernel void feed(
    constant FeedParams& p       [[buffer(0)]],
    device const int* tokens     [[buffer(1)]],   // [M]: a token, or -1 - row of chosen
    device const int* chosen     [[buffer(2)]],   // [N, 1], or none
    device int* out              [[buffer(3)]],   // [M, 1]
    uint m                       [[thread_position_in_grid]]) {
  if (m < p.rows) {
    const int token = tokens[m];
    out[ulong(m) * p.out_stride] = token < 0 ? chosen[ulong(-1 - token) * p.chosen_stride] : token;
  }
}
