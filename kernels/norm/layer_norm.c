// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, one row at a time. With a residual,
// residual += x first, and the sum is normalized. Sixteen lanes add columns c, c+16, ..., so the
// order depends only on the width. bias may be null.
#ifdef ISA

static void KERNEL(layer_norm)(const float *x, ptrdiff_t x_stride, float *residual,
    ptrdiff_t residual_stride, const float *weight, const float *bias, float *out,
    ptrdiff_t out_stride, int64_t rows, int64_t cols, float eps) {
    const int64_t whole = cols & ~15;
    const int rest = (int)(cols - whole);
    for (int64_t r = 0; r < rows; r++, x += x_stride, out += out_stride) {
        const float *in = residual ? residual : x;
        f32x16 sum = v_zero(), squares = v_zero();
        for (int64_t c = 0; c < whole; c += 16) {
            f32x16 v = v_load(x + c);
            if (residual) {
                v = v_add(v_load(residual + c), v);
                v_store(residual + c, v);
            }
            sum = v_add(sum, v);
        }
        if (rest) {
            f32x16 v = v_load_n(x + whole, rest);
            if (residual) {
                v = v_add(v_load_n(residual + whole, rest), v);
                v_store_n(residual + whole, v, rest);
            }
            sum = v_add(sum, v);
        }
        const f32x16 mean = v_set1(v_sum(sum) / (float)cols);
        for (int64_t c = 0; c < whole; c += 16) {
            const f32x16 v = v_sub(v_load(in + c), mean);
            squares = v_fma(v, v, squares);
        }
        if (rest) {
            float tail[16] = {0}; // lanes past the end are not those of the mean
            v_store_n(tail, v_sub(v_load_n(in + whole, rest), mean), rest);
            const f32x16 v = v_load(tail);
            squares = v_fma(v, v, squares);
        }
        const f32x16 scale = v_set1(1.0f / sqrtf(v_sum(squares) / (float)cols + eps));
        for (int64_t c = 0; c < whole; c += 16) {
            const f32x16 v = v_mul(v_sub(v_load(in + c), mean), scale);
            v_store(out + c, v_fma(v, v_load(weight + c), bias ? v_load(bias + c) : v_zero()));
        }
        if (rest) {
            const f32x16 v = v_mul(v_sub(v_load_n(in + whole, rest), mean), scale);
            v_store_n(out + whole,
                v_fma(v, v_load_n(weight + whole, rest),
                    bias ? v_load_n(bias + whole, rest) : v_zero()),
                rest);
        }
        if (residual) residual += residual_stride;
    }
}

#else

#define KERNEL_SOURCE "layer_norm.c"
#include "../common/foreach_isa.h"

void headroom_layer_norm(int isa, const float *x, ptrdiff_t x_stride, float *residual,
    ptrdiff_t residual_stride, const float *weight, const float *bias, float *out,
    ptrdiff_t out_stride, int64_t rows, int64_t cols, float eps) {
    DISPATCH(isa, layer_norm,
        (x, x_stride, residual, residual_stride, weight, bias, out, out_stride, rows, cols, eps));
}

#endif
