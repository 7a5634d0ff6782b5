// MXFP4 weights: 4-bit codes are floats of one sign, two exponent and one fraction bit (E2M1). Each
// 32 codes have a byte that is the exponent of their scale (E8M0): element = value(code) *
// 2^(scale-127). A doubled value is an integer from -12 to 12, so elements are exactly integers
// times half their scale, and kernels that multiply bytes treat them as other codes. Included by a
// kernel's ISA half, so it has no include guard, after affine.h.

#define c_e2m1 KERNEL(c_e2m1)
#define c_e2m1_float KERNEL(c_e2m1_float)
#define v_load_e8m0 KERNEL(v_load_e8m0)
#define mxfp4_row KERNEL(mxfp4_row)

#ifndef MXFP4_TABLES
#define MXFP4_TABLES
// Numbers of headroom/kernels.Mode.
#define MODE_AFFINE 0
#define MODE_MXFP4 1
// Doubled values of the sixteen codes, plus o.
#define E2M1(o) \
    o, 1 + o, 2 + o, 3 + o, 4 + o, 6 + o, 8 + o, 12 + o, o, o - 1, o - 2, o - 3, o - 4, o - 6, \
        o - 8, o - 12
#endif

// c_e2m1 turns 64 codes into bytes: the doubled values plus E2M1_OFFSET, which is 12 where bytes
// that multiply activations are unsigned. c_e2m1_float returns doubled values [16i, 16i+16) of its
// result.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#define E2M1_OFFSET 12
SIMD codes64 c_e2m1(codes64 c) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_setr_epi8(E2M1(E2M1_OFFSET))), c);
}
SIMD f32x16 c_e2m1_float(codes64 c, int i) { return v_sub(c_float(c, i), v_set1(E2M1_OFFSET)); }
SIMD f32x16 KERNEL(e8m0)(const uint8_t *p) {
    __m512i x = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)), 23);
    return _mm512_castsi512_ps(_mm512_max_epi32(x, _mm512_set1_epi32(1 << 22)));
}
#elif ISA == ISA_AVX2
#define E2M1_OFFSET 12
SIMD codes64 c_e2m1(codes64 c) {
    __m256i table = _mm256_broadcastsi128_si256(_mm_setr_epi8(E2M1(E2M1_OFFSET)));
    return (codes64){_mm256_shuffle_epi8(table, c.a), _mm256_shuffle_epi8(table, c.b)};
}
SIMD f32x16 c_e2m1_float(codes64 c, int i) { return v_sub(c_float(c, i), v_set1(E2M1_OFFSET)); }
SIMD __m256 KERNEL(e8m0_half)(const uint8_t *p) {
    __m256i x = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)), 23);
    return _mm256_castsi256_ps(_mm256_max_epi32(x, _mm256_set1_epi32(1 << 22)));
}
SIMD f32x16 KERNEL(e8m0)(const uint8_t *p) {
    return (f32x16){KERNEL(e8m0_half)(p), KERNEL(e8m0_half)(p + 8)};
}
#elif ISA == ISA_NEON
#define E2M1_OFFSET 0
SIMD codes64 c_e2m1(codes64 c) {
    static const int8_t values[16] = {E2M1(E2M1_OFFSET)};
    uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(values));
    return (codes64){{vqtbl1q_u8(table, c.v[0]), vqtbl1q_u8(table, c.v[1]),
                      vqtbl1q_u8(table, c.v[2]), vqtbl1q_u8(table, c.v[3])}};
}
SIMD f32x16 c_e2m1_float(codes64 c, int i) {
    int8x16_t x = vreinterpretq_s8_u8(c.v[i]);
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_s8(vget_high_s8(x));
    return (f32x16){
        {vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
         vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)))}};
}
SIMD float32x4_t KERNEL(e8m0_quarter)(uint16x4_t x) {
    return vreinterpretq_f32_u32(vmaxq_u32(vshlq_n_u32(vmovl_u16(x), 23), vdupq_n_u32(1 << 22)));
}
SIMD f32x16 KERNEL(e8m0)(const uint8_t *p) {
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_u8(vget_high_u8(x));
    return (f32x16){
        {KERNEL(e8m0_quarter)(vget_low_u16(lo)), KERNEL(e8m0_quarter)(vget_high_u16(lo)),
         KERNEL(e8m0_quarter)(vget_low_u16(hi)), KERNEL(e8m0_quarter)(vget_high_u16(hi))}};
}
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
    return v_mul(KERNEL(e8m0)(p), v_set1(0.5f));
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
