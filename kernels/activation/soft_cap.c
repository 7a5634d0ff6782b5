// out = cap * tanh(x / cap), for units [from, to). A unit is block_cols columns of a row: unit u is
// block u % blocks of row u / blocks. Strides are in elements. out may be x.
#ifdef ISA

#define v_soft_cap KERNEL(v_soft_cap)
SIMD f32x16 v_soft_cap(f32x16 x, f32x16 cap, f32x16 inverse) {
    return v_mul(cap, v_tanh(v_mul(x, inverse)));
}

static void KERNEL(soft_cap)(const float *x, ptrdiff_t x_stride, float *out, ptrdiff_t out_stride,
                             float cap, int64_t cols, int64_t block_cols, int64_t from,
                             int64_t to) {
    const int64_t blocks = (cols + block_cols - 1) / block_cols;
    const f32x16 most = v_set1(cap), inverse = v_set1(1 / cap);
    for (int64_t u = from; u < to; u++) {
        const int64_t r = u / blocks, first = u % blocks * block_cols,
                      end = first + block_cols < cols ? first + block_cols : cols;
        const float *px = x + r * x_stride;
        float *po = out + r * out_stride;
        for (int64_t i = first; i < end; i += 16) {
            const int n = end - i < 16 ? (int)(end - i) : 16;
            if (n == 16)
                v_store(po + i, v_soft_cap(v_load(px + i), most, inverse));
            else
                v_store_n(po + i, v_soft_cap(v_load_n(px + i, n), most, inverse), n);
        }
    }
}

#else

#define KERNEL_SOURCE "soft_cap.c"
#include "../common/foreach_isa.h"

void headroom_soft_cap(int isa, const float *x, ptrdiff_t x_stride, float *out,
                       ptrdiff_t out_stride, float cap, int64_t cols, int64_t block_cols,
                       int64_t from, int64_t to) {
    DISPATCH(isa, soft_cap, (x, x_stride, out, out_stride, cap, cols, block_cols, from, to));
}

#endif
