// out = cap * tanh(x / cap), with the same operations and bits as soft_cap.c.
//
// Grid: a threadgroup computes a block of columns of one row, a thread one element. A thread reads
// only the element that it also writes, so out may be x.
#include <metal_stdlib>
using namespace metal;

struct SoftCapParams {
  uint cols;
  uint x_stride;
  uint out_stride;
  float cap;
  float twice;  // 2 / cap
};

// Returns e^x - 1, with the polynomial and the range of exp_portable. With x = n ln2 + r and
// q = e^r - 1 it is 2^n q + (2^n - 1), so it is precise where x is near 0. NaN gives NaN.
inline float expm1_portable(float x) {
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const float n = rint(x * 1.44269504f);
  float r = fma(-n, 0.693359375f, x);
  r = fma(-n, -2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  const float q = fma(p * r, r, r);
  const float power = as_type<float>((int(n) + 127) << 23);
  return fma(power, q, power - 1.0f);
}

kernel void soft_cap(
    constant SoftCapParams& p [[buffer(0)]],
    device const float* x     [[buffer(1)]],   // [M, cols]
    device float* out         [[buffer(2)]],   // [M, cols]
    uint2 group               [[threadgroup_position_in_grid]],   // row, block of columns
    uint tid                  [[thread_index_in_threadgroup]],
    uint2 threads             [[threads_per_threadgroup]]) {
  const ulong row = group.x;
  const uint c = group.y * threads.x + tid;
  if (c < p.cols) {
    const float e = expm1_portable(x[row * p.x_stride + c] * p.twice);
    out[row * p.out_stride + c] = p.cap * (e / (e + 2.0f));
  }
}
