// out = x / sqrt(mean(x^2) + eps) * weight * silu(gate), one row at a time. Sixteen lanes add
// the squares of columns c, c+16, ..., so the order depends only on the width.
#ifdef ISA

static void KERNEL(gated_rms_norm)(const float *x, ptrdiff_t x_stride, const float *gate,
    ptrdiff_t gate_stride, const float *weight, float *out, ptrdiff_t out_stride, int64_t rows,
    int64_t cols, float eps) {
    for (int64_t r = 0; r < rows; r++, x += x_stride, gate += gate_stride, out += out_stride) {
        f32x16 squares = v_zero();
        int64_t c = 0;
        for (; c + 16 <= cols; c += 16) {
            f32x16 v = v_load(x + c);
            squares = v_fma(v, v, squares);
        }
        if (c < cols) {
            f32x16 v = v_load_n(x + c, (int)(cols - c));
            squares = v_fma(v, v, squares);
        }
        f32x16 scale = v_set1(1.0f / sqrtf(v_sum(squares) / (float)cols + eps));
        for (c = 0; c + 16 <= cols; c += 16)
            v_store(out + c,
                v_mul(v_mul(v_mul(v_load(x + c), scale), v_load(weight + c)),
                    v_silu(v_load(gate + c))));
        if (c < cols) {
            int n = (int)(cols - c);
            f32x16 v = v_mul(v_mul(v_load_n(x + c, n), scale), v_load_n(weight + c, n));
            v_store_n(out + c, v_mul(v, v_silu(v_load_n(gate + c, n))), n);
        }
    }
}

#else

#define KERNEL_SOURCE "gated_rms_norm.c"
#include "../common/foreach_isa.h"

void headroom_gated_rms_norm(int isa, const float *x, ptrdiff_t x_stride, const float *gate,
    ptrdiff_t gate_stride, const float *weight, float *out, ptrdiff_t out_stride, int64_t rows,
    int64_t cols, float eps) {
    DISPATCH(isa, gated_rms_norm,
        (x, x_stride, gate, gate_stride, weight, out, out_stride, rows, cols, eps));
}

#endif
