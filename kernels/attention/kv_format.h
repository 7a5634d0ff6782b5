// Reading and writing the elements of a cache. kv_load reads sixteen plain elements. k_read and
// v_read dequantize to float32, for attention with float32 activations only: otherwise kv_dot.h
// multiplies the codes. Included once per instruction set, so it has no include guard.
#include "kv_page.h"
#include "kv_codes.h"

// Values of headroom/kernels.DType.
#define KV_F32 0
#define KV_F16 1
#define KV_BF16 2

#define kv_load KERNEL(kv_load)
#define kv_read_as KERNEL(kv_read_as)
#define kv_read KERNEL(kv_read)
#define kv_store KERNEL(kv_store)
#define kv_element_bytes KERNEL(kv_element_bytes)
#define kv_scale KERNEL(kv_scale)
#define kv_bias KERNEL(kv_bias)
#define k_read_bits KERNEL(k_read_bits)
#define v_read_bits KERNEL(v_read_bits)
#define k_read KERNEL(k_read)
#define v_read KERNEL(v_read)

SIMD int64_t kv_element_bytes(int dtype) { return dtype == KV_F32 ? 4 : 2; }

// Elements [i, i+16) of p. dtype must be a constant after inlining.
SIMD f32x16 kv_load(const int dtype, const void *p, int64_t i) {
    switch (dtype) {
    case KV_F16: return v_load_f16((const uint16_t *)p + i);
    case KV_BF16: return v_load_bf16((const uint16_t *)p + i);
    default: return v_load((const float *)p + i);
    }
}

SIMD void kv_read_as(const int dtype, float *dst, int64_t dst_stride, const void *src,
    int64_t src_stride, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += 16)
            v_store(dst + r * dst_stride + c, kv_load(dtype, src, r * src_stride + c));
}

// dst [rows, cols] = src as float32. Strides are in elements, and cols is a multiple of 16.
SIMD void kv_read(int dtype, float *dst, int64_t dst_stride, const void *src, int64_t src_stride,
    int64_t rows, int64_t cols) {
    switch (dtype) {
    case KV_F16: kv_read_as(KV_F16, dst, dst_stride, src, src_stride, rows, cols); break;
    case KV_BF16: kv_read_as(KV_BF16, dst, dst_stride, src, src_stride, rows, cols); break;
    default: kv_read_as(KV_F32, dst, dst_stride, src, src_stride, rows, cols);
    }
}

// Stores sixteen elements, rounded to nearest even. float16 saturates, so that the cache never
// holds an infinity. NaN stays NaN.
SIMD void kv_store(int dtype, void *dst, f32x16 x) {
    switch (dtype) {
    case KV_F16:
        v_store_f16((uint16_t *)dst, v_min(v_set1(65504.0f), v_max(v_set1(-65504.0f), x)));
        break;
    case KV_BF16: v_store_bf16((uint16_t *)dst, x); break;
    default: v_store((float *)dst, x);
    }
}

// Return the scales and the biases of group g for the 16 positions of a strip.
SIMD f32x16 kv_scale(const uint8_t *strip, int64_t g) {
    return v_load_f16((const uint16_t *)strip + g * STRIP);
}
SIMD f32x16 kv_bias(const uint8_t *strip, int64_t g, int64_t groups, int64_t zero, f32x16 scale) {
    return zero ? v_mul(scale, v_set1((float)-zero))
                : v_load_f16((const uint16_t *)strip + (groups + g) * STRIP);
}

// dst [to-from, 16] = dimensions [from, to) of K of a strip, dequantized. Both are multiples of 32.
SIMD void k_read_bits(const int bits, const struct kv_format *f, float *dst, int64_t dst_stride,
    const uint8_t *strip, int64_t d, int64_t from, int64_t to) {
    const uint8_t *p = strip + kv_param_bytes(f, d) + from * 2 * bits;
    const int64_t groups = kv_groups(f, d);
    for (int64_t i = from; i < to; i += 32, p += 64 * bits, dst += 32 * dst_stride) {
        float scales[16], biases[16];
        f32x16 s = kv_scale(strip, i / f->group);
        v_store(scales, s);
        v_store(biases, kv_bias(strip, i / f->group, groups, f->zero, s));
        for (int h = 0; h < 16 / LANES; h++) {
            const lanes_f scale = l_loadf(scales + h * LANES), bias = l_loadf(biases + h * LANES);
#pragma GCC unroll 8
            for (int q = 0; q < 8; q++) {
                const lanes_i x = k_quad(bits, p, q, h);
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++)
                    l_storef(dst + (4 * q + j) * dst_stride + h * LANES,
                        l_fma(l_float(l_byte(x, j)), scale, bias));
            }
        }
    }
}

// dst [to-from, d] = V of positions [from, to) of a strip, dequantized.
SIMD void v_read_bits(const int bits, const struct kv_format *f, float *dst, int64_t dst_stride,
    const uint8_t *strip, int64_t d, int64_t from, int64_t to) {
    static const int byte_of[4] = V_BYTE_OF_POSITION;
    const uint8_t *p = strip + kv_param_bytes(f, d);
    const int64_t groups = kv_groups(f, d);
    for (int64_t i = 0; i < d; i += 32, p += 64 * bits) {
        float scales[16], biases[16];
        f32x16 s = kv_scale(strip, i / f->group);
        v_store(scales, s);
        v_store(biases, kv_bias(strip, i / f->group, groups, f->zero, s));
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
#pragma GCC unroll 4
            for (int h = 0; h < 16 / LANES; h++)
                for (int64_t at = from; at < to; at++) {
                    const lanes_i x = v_quad(bits, p + at / 4 * 16 * bits, v, h);
                    lanes_f y;
                    switch (byte_of[at % 4]) {
                    case 0: y = l_float(l_byte(x, 0)); break;
                    case 1: y = l_float(l_byte(x, 1)); break;
                    case 2: y = l_float(l_byte(x, 2)); break;
                    default: y = l_float(l_byte(x, 3));
                    }
                    l_storef(dst + (at - from) * dst_stride + i + 16 * v + h * LANES,
                        l_fma(y, l_set1(scales[at]), l_set1(biases[at])));
                }
    }
}

static __attribute__((unused)) void k_read(const struct kv_format *f, float *dst,
    int64_t dst_stride, const uint8_t *strip, int64_t d, int64_t from, int64_t to) {
#define READ(b) k_read_bits(b, f, dst, dst_stride, strip, d, from, to)
    EACH_BITS(f->bits, READ)
#undef READ
}

static __attribute__((unused)) void v_read(const struct kv_format *f, float *dst,
    int64_t dst_stride, const uint8_t *strip, int64_t d, int64_t from, int64_t to) {
#define READ(b) v_read_bits(b, f, dst, dst_stride, strip, d, from, to)
    EACH_BITS(f->bits, READ)
#undef READ
}
