// out = g * sigmoid(alpha * g) * (u + 1), where g is gate + bias, at most limit, and u is up + bias
// between -limit and limit. It computes units [from, to) of block_cols columns: unit u is block
// u % blocks of row u / blocks. Row r has the biases of expert ids[r]; a row of an expert that does
// not exist is NaN. out may be gate or up.
#ifdef ISA

// v_min and v_max return their second operand if one is NaN, so NaNs pass through.
#define v_clamped_swiglu KERNEL(v_clamped_swiglu)
SIMD f32x16 v_clamped_swiglu(f32x16 gate, f32x16 up, f32x16 limit, f32x16 alpha) {
    const f32x16 g = v_min(limit, gate),
                 u = v_min(limit, v_max(v_sub(v_zero(), limit), up));
    return v_mul(v_mul(g, v_sigmoid(v_mul(alpha, g))), v_add(u, v_set1(1.0f)));
}

static void KERNEL(clamped_swiglu)(const float *gate, ptrdiff_t gate_stride, const float *up,
                                   ptrdiff_t up_stride, const int32_t *ids, const float *gate_bias,
                                   const float *up_bias, int64_t experts, float limit, float alpha,
                                   float *out, ptrdiff_t out_stride, int64_t cols,
                                   int64_t block_cols, int64_t from, int64_t to) {
    const int64_t blocks = (cols + block_cols - 1) / block_cols;
    const f32x16 most = v_set1(limit), slope = v_set1(alpha);
    for (int64_t unit = from; unit < to; unit++) {
        const int64_t r = unit / blocks, first = unit % blocks * block_cols, id = ids[r];
        const int64_t end = first + block_cols < cols ? first + block_cols : cols;
        const float *g = gate + r * gate_stride, *u = up + r * up_stride;
        float *o = out + r * out_stride;
        if (id < 0 || id >= experts) {
            for (int64_t i = first; i < end; i++) o[i] = __builtin_nanf("");
            continue;
        }
        const float *gb = gate_bias + id * cols, *ub = up_bias + id * cols;
        for (int64_t i = first; i < end; i += 16) {
            const int n = end - i < 16 ? (int)(end - i) : 16;
            if (n == 16)
                v_store(o + i, v_clamped_swiglu(v_add(v_load(g + i), v_load(gb + i)),
                                                v_add(v_load(u + i), v_load(ub + i)), most, slope));
            else
                v_store_n(o + i,
                          v_clamped_swiglu(v_add(v_load_n(g + i, n), v_load_n(gb + i, n)),
                                           v_add(v_load_n(u + i, n), v_load_n(ub + i, n)), most,
                                           slope),
                          n);
        }
    }
}

#else

#define KERNEL_SOURCE "clamped_swiglu.c"
#include "../common/foreach_isa.h"

void headroom_clamped_swiglu(int isa, const float *gate, ptrdiff_t gate_stride, const float *up,
                             ptrdiff_t up_stride, const int32_t *ids, const float *gate_bias,
                             const float *up_bias, int64_t experts, float limit, float alpha,
                             float *out, ptrdiff_t out_stride, int64_t cols, int64_t block_cols,
                             int64_t from, int64_t to) {
    DISPATCH(isa, clamped_swiglu,
             (gate, gate_stride, up, up_stride, ids, gate_bias, up_bias, experts, limit, alpha, out,
              out_stride, cols, block_cols, from, to));
}

#endif
