// out = cap * tanh(x / cap), for units [from, to). A unit is block_cols columns of a row: unit u is
// block u % blocks of row u / blocks. Strides are in elements. out may be x.
#ifdef ISA

// Returns e^x - 1, with the polynomial and the range of v_exp. With x = n ln2 + r and
// q = e^r - 1 it is 2^n q + (2^n - 1), so it is precise where x is near 0.
#define v_expm1 KERNEL(v_expm1)
SIMD f32x16 v_expm1(f32x16 x) {
    x = v_min(v_set1(88.0f), v_max(v_set1(-87.0f), x)); // in this order a NaN passes through
    const f32x16 t = v_add(v_mul(x, v_set1(1.44269504f)), v_set1(V_ROUNDER)),
                 n = v_sub(t, v_set1(V_ROUNDER));
    f32x16 r = v_fnma(n, v_set1(0.693359375f), x);
    r = v_fnma(n, v_set1(-2.12194440e-4f), r);
    f32x16 p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    const f32x16 q = v_fma(v_mul(p, r), r, r), power = v_scale2(v_set1(1.0f), t);
    return v_fma(power, q, v_sub(power, v_set1(1.0f)));
}

// tanh z = (e^2z - 1) / (e^2z + 1). twice is 2 / cap.
#define v_soft_cap KERNEL(v_soft_cap)
SIMD f32x16 v_soft_cap(f32x16 x, f32x16 cap, f32x16 twice) {
    const f32x16 e = v_expm1(v_mul(x, twice));
    return v_mul(cap, v_div(e, v_add(e, v_set1(2.0f))));
}

static void KERNEL(soft_cap)(const float *x, ptrdiff_t x_stride, float *out, ptrdiff_t out_stride,
                             float cap, float twice, int64_t cols, int64_t block_cols, int64_t from,
                             int64_t to) {
    const int64_t blocks = (cols + block_cols - 1) / block_cols;
    const f32x16 most = v_set1(cap), slope = v_set1(twice);
    for (int64_t u = from; u < to; u++) {
        const int64_t r = u / blocks, first = u % blocks * block_cols,
                      end = first + block_cols < cols ? first + block_cols : cols;
        const float *px = x + r * x_stride;
        float *po = out + r * out_stride;
        for (int64_t i = first; i < end; i += 16) {
            const int n = end - i < 16 ? (int)(end - i) : 16;
            if (n == 16)
                v_store(po + i, v_soft_cap(v_load(px + i), most, slope));
            else
                v_store_n(po + i, v_soft_cap(v_load_n(px + i, n), most, slope), n);
        }
    }
}

#else

#define KERNEL_SOURCE "soft_cap.c"
#include "foreach_isa.h"

void headroom_soft_cap(int isa, const float *x, ptrdiff_t x_stride, float *out,
                       ptrdiff_t out_stride, float cap, float twice, int64_t cols,
                       int64_t block_cols, int64_t from, int64_t to) {
    DISPATCH(isa, soft_cap,
             (x, x_stride, out, out_stride, cap, twice, cols, block_cols, from, to));
}

#endif
