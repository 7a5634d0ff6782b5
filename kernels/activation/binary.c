// out = f(x, y) element by element, for units [from, to). A unit is block_cols columns of a row:
// unit u is block u % blocks of row u / blocks. Strides are in elements. out may be x or y.
#ifdef ISA

#define BINARY(name, expression) \
    static void KERNEL(name)(const float *x, ptrdiff_t x_stride, const float *y, \
        ptrdiff_t y_stride, float *out, ptrdiff_t out_stride, int64_t cols, int64_t block_cols, \
        int64_t from, int64_t to) { \
        int64_t blocks = (cols + block_cols - 1) / block_cols; \
        for (int64_t u = from; u < to; u++) { \
            int64_t r = u / blocks, i = u % blocks * block_cols, \
                    end = i + block_cols < cols ? i + block_cols : cols; \
            const float *px = x + r * x_stride, *py = y + r * y_stride; \
            float *po = out + r * out_stride; \
            for (; i + 16 <= end; i += 16) { \
                f32x16 a = v_load(px + i), b = v_load(py + i); \
                v_store(po + i, expression); \
            } \
            if (i < end) { \
                int n = (int)(end - i); \
                f32x16 a = v_load_n(px + i, n), b = v_load_n(py + i, n); \
                v_store_n(po + i, expression, n); \
            } \
        } \
    }

BINARY(sigmoid_mul, v_mul(a, v_sigmoid(b)))
BINARY(add, v_add(a, b))
BINARY(mul, v_mul(a, b))
BINARY(relu_mul, v_mul(v_max(a, v_zero()), b))

// The tanh approximation, as in gelu_mul.go: (1 + tanh z) / 2 is sigmoid(2z).
#define v_gelu KERNEL(v_gelu)
SIMD f32x16 v_gelu(f32x16 x) {
    f32x16 z = v_mul(
        v_mul(v_set1(1.59576912f), x), v_fma(v_mul(v_set1(0.044715f), x), x, v_set1(1.0f)));
    return v_mul(x, v_sigmoid(z));
}
BINARY(gelu_mul, v_mul(v_gelu(a), b))
BINARY(silu_mul, v_mul(v_mul(a, v_sigmoid(a)), b))

// The error function (Abramowitz and Stegun 1964, 7.1.26): for z = |x| / sqrt 2 and
// t = 1 / (1 + pz) it is 1 - t P(t) e^-z^2, with an absolute error below 1.5e-7 and the sign of x.
#define v_gelu_erf KERNEL(v_gelu_erf)
SIMD f32x16 v_gelu_erf(f32x16 x) {
    const f32x16 z = v_mul(v_max(x, v_sub(v_zero(), x)), v_set1(0.70710678f)),
                 t = v_div(v_set1(1.0f), v_fma(z, v_set1(0.3275911f), v_set1(1.0f)));
    f32x16 p = v_set1(1.061405429f);
    p = v_fma(p, t, v_set1(-1.453152027f));
    p = v_fma(p, t, v_set1(1.421413741f));
    p = v_fma(p, t, v_set1(-0.284496736f));
    p = v_fma(p, t, v_set1(0.254829592f));
    // Half of 1 - erf z, which is the weight of a negative x; a positive one has the rest.
    const f32x16 small = v_mul(v_mul(v_mul(p, t), v_set1(0.5f)), v_exp(v_fnma(z, z, v_zero()))),
                 most = v_max(x, v_zero());
    return v_fnma(v_max(x, v_sub(v_zero(), x)), small, most);
}
BINARY(gelu_erf_mul, v_mul(v_gelu_erf(a), b))
#undef BINARY

#else

#define KERNEL_SOURCE "binary.c"
#include "../common/foreach_isa.h"

void headroom_binary(int isa, int function, const float *x, ptrdiff_t x_stride, const float *y,
    ptrdiff_t y_stride, float *out, ptrdiff_t out_stride, int64_t cols, int64_t block_cols,
    int64_t from, int64_t to) {
    switch (function) { // values of activation.function
    case 0:
        DISPATCH(isa, sigmoid_mul,
            (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    case 1:
        DISPATCH(isa, add, (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    case 2:
        DISPATCH(
            isa, gelu_mul, (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    case 3:
        DISPATCH(
            isa, silu_mul, (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    case 5:
        DISPATCH(isa, gelu_erf_mul,
            (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    case 6:
        DISPATCH(
            isa, relu_mul, (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    case 4:
        DISPATCH(isa, mul, (x, x_stride, y, y_stride, out, out_stride, cols, block_cols, from, to));
        break;
    }
}

#endif
