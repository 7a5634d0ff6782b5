// MXFP4 weights: 4-bit codes are floats of one sign, two exponent and one fraction bit (E2M1). Each
// 32 codes have a byte that is the exponent of their scale (E8M0): element = value(code) *
// 2^(scale-127). A doubled value is an integer from -12 to 12, so elements are exactly integers
// times half their scale, and kernels that multiply bytes treat these integers like affine codes.
// Included by a kernel's ISA half, so it has no include guard, after affine.h.

#define c_e2m1 KERNEL(c_e2m1)
#define c_e2m1_float KERNEL(c_e2m1_float)
#define v_e8m0 KERNEL(v_e8m0)
#define v_load_e8m0 KERNEL(v_load_e8m0)
#define mxfp4_row KERNEL(mxfp4_row)

#ifndef MXFP4_TABLES
#define MXFP4_TABLES
// Numbers of headroom/kernels.Mode.
#define MODE_AFFINE 0
#define MODE_MXFP4 1
#define MODE_MXFP8 2
#define MODE_NVFP4 3
#define MODE_FP8 4
// Doubled values of the sixteen codes, plus o.
#define E2M1(o) \
    o, 1 + o, 2 + o, 3 + o, 4 + o, 6 + o, 8 + o, 12 + o, o, o - 1, o - 2, o - 3, o - 4, o - 6, \
        o - 8, o - 12
#endif

// The primitives that the file of each instruction set defines (e2m1_avx512.h, e2m1_avx2.h,
// e2m1_neon.h). c_e2m1 turns 64 codes into bytes: the doubled values plus E2M1_OFFSET, which is 12
// where bytes that multiply activations are unsigned. c_e2m1_float returns doubled values [16i,
// 16i+16) of its result. v_e8m0 returns sixteen scales.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "e2m1_avx512.h"
#elif ISA == ISA_AVX2
#include "e2m1_avx2.h"
#elif ISA == ISA_NEON
#include "e2m1_neon.h"
#endif

// Loads scales [at, at+16) of a row of n scales, each halved (2^(scale-128)) because decoded values
// are doubled. Scales past n are undefined. A scale is the exponent of a float, except that 0 means
// 2^-127, a subnormal float with only the highest bit of the fraction.
SIMD f32x16 v_load_e8m0(const uint8_t *row, int64_t at, int64_t n) {
    uint8_t t[16] = {0};
    const uint8_t *p = row + at;
    if (n - at < 16) {
        if (n > at) memcpy(t, p, (size_t)(n - at));
        p = t;
    }
    return v_mul(v_e8m0(p), v_set1(0.5f));
}

// Dequantizes a row of k elements, a multiple of 32, to out.
static __attribute__((unused)) void mxfp4_row(const uint8_t *codes, const uint8_t *scales,
                                              int64_t k, float *out) {
    float s[16];
    for (int64_t at = 0; at < k; at += 64) {
        if (at % 512 == 0) v_store(s, v_load_e8m0(scales, at / 32, k / 32));
        int vectors = k - at >= 64 ? 4 : 2;
        codes64 c =
            c_e2m1(vectors == 4 ? c_load(codes + at / 2, 4) : c_load_half(codes + at / 2, 4));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            if (i == vectors) break;
            v_store(out + at + 16 * i,
                    v_mul(c_e2m1_float(c, i), v_set1(s[(at / 32 + i / 2) % 16])));
        }
    }
}
