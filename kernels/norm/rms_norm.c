// out = x / sqrt(mean(x^2) + eps) * weight, one row at a time. With a residual, residual += x
// first, and the sum is normalized. Sixteen lanes add the squares of columns c, c+16, ..., so the
// order depends only on the width.
#ifdef ISA

static void KERNEL(rms_norm)(const float *x, ptrdiff_t x_stride, float *residual,
    ptrdiff_t residual_stride, const float *weight, float *out, ptrdiff_t out_stride, int64_t rows,
    int64_t cols, float eps) {
    for (int64_t r = 0; r < rows; r++, x += x_stride, out += out_stride) {
        f32x16 squares = v_zero();
        int64_t c = 0;
        for (; c + 16 <= cols; c += 16) {
            f32x16 v = v_load(x + c);
            if (residual) {
                v = v_add(v_load(residual + c), v);
                v_store(residual + c, v);
            }
            // For the loop below: the weights of matrix products evict everything else from the
            // caches.
            if (r == 0) __builtin_prefetch(weight + c);
            squares = v_fma(v, v, squares);
        }
        if (c < cols) {
            const int n = (int)(cols - c);
            f32x16 v = v_load_n(x + c, n);
            if (residual) {
                v = v_add(v_load_n(residual + c, n), v);
                v_store_n(residual + c, v, n);
            }
            squares = v_fma(v, v, squares);
        }
        const float *in = residual ? residual : x;
        if (residual) residual += residual_stride;
        f32x16 scale = v_set1(1.0f / sqrtf(v_sum(squares) / (float)cols + eps));
        for (c = 0; c + 16 <= cols; c += 16)
            v_store(out + c, v_mul(v_mul(v_load(in + c), scale), v_load(weight + c)));
        if (c < cols) {
            int n = (int)(cols - c);
            v_store_n(
                out + c, v_mul(v_mul(v_load_n(in + c, n), scale), v_load_n(weight + c, n)), n);
        }
    }
}

#else

#define KERNEL_SOURCE "rms_norm.c"
#include "../common/foreach_isa.h"

void headroom_rms_norm(int isa, const float *x, ptrdiff_t x_stride, float *residual,
    ptrdiff_t residual_stride, const float *weight, float *out, ptrdiff_t out_stride, int64_t rows,
    int64_t cols, float eps) {
    DISPATCH(isa, rms_norm,
        (x, x_stride, residual, residual_stride, weight, out, out_stride, rows, cols, eps));
}

#endif
