// MLX affine weights: a row is one little-endian LSB-first stream of 2, 3, 4, 5, 6 or 8-bit codes,
// and each group of 32, 64 or 128 elements has a scale and a bias: element = code*scale + bias.
// Included by a kernel's ISA half (so no include guard), after simd.h.
//
// codes64 is 64 codes in order, a byte each. `bits` must be a constant where these functions are
// inlined into a loop. No load touches memory outside its codes, since rows are in mapped files.

#define codes64 KERNEL(codes64)
#define c_load KERNEL(c_load)
#define c_load_half KERNEL(c_load_half)
#define c_store KERNEL(c_store)
#define c_float KERNEL(c_float)
#define v_load_param KERNEL(v_load_param)
#define affine_row KERNEL(affine_row)
#define affine_row_bits KERNEL(affine_row_bits)

#ifndef AFFINE_TABLES
#define AFFINE_TABLES
// Numbers of headroom/kernels.DType.
#define DTYPE_F32 0
#define DTYPE_F16 1
#define DTYPE_BF16 2
#endif

// Without a byte permute, sixteen codes (2*bits bytes) are unpacked at a time: a shuffle moves the
// two bytes that hold a code into its 16-bit lane, a multiplication shifts the code's highest bit
// to the top, and one shift moves it down again. The sixteen bytes that the shuffle reads must not
// pass the end of the 64 codes, so the last ones start early, at WINDOW.
#define WINDOW(i, bits) (2 * (bits) * (i) < 8 * (bits) - 16 ? 2 * (bits) * (i) : 8 * (bits) - 16)
#define AT(i, j, bits) \
    (char)(2 * (bits) * (i) - WINDOW(i, bits) + (j) * (bits) / 8), \
        (char)(2 * (bits) * (i) - WINDOW(i, bits) + (j) * (bits) / 8 + 1)
#define SHUFFLE(i, j, bits) \
    AT(i, (j), bits), AT(i, (j) + 1, bits), AT(i, (j) + 2, bits), AT(i, (j) + 3, bits), \
        AT(i, (j) + 4, bits), AT(i, (j) + 5, bits), AT(i, (j) + 6, bits), AT(i, (j) + 7, bits)
#define TOP(j, bits) (short)(1 << (16 - (bits) - (j) * (bits) % 8))
#define TOPS(bits) \
    TOP(0, bits), TOP(1, bits), TOP(2, bits), TOP(3, bits), TOP(4, bits), TOP(5, bits), \
        TOP(6, bits), TOP(7, bits)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI

typedef __m512i codes64;

#if ISA == ISA_VNNI
// Loads the first n bytes, 16, 24, 40 or 48. Masked loads that cross into a page without a
// translation take hundreds of cycles.
SIMD __m512i KERNEL(load_bytes)(const uint8_t *p, int n) {
    if (n == 16) return _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    if (n == 24)
        return _mm512_inserti32x4(_mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p)),
                                  _mm_loadl_epi64((const __m128i *)(p + 16)), 1);
    __m128i end = n == 40 ? _mm_loadl_epi64((const __m128i *)(p + 32))
                          : _mm_loadu_si128((const __m128i *)(p + 32));
    return _mm512_inserti32x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p)), end,
                              2);
}
// With a byte permute the `bits` bytes of each eight codes go to a 64-bit lane, from which a
// multishift selects the codes.
#define Q(j, b) \
    (char)((j) * (b)), (char)((j) * (b) + 1), (char)((j) * (b) + 2), (char)((j) * (b) + 3), \
        (char)((j) * (b) + 4), (char)((j) * (b) + 5), 0, 0
#define S(b) 0, (b), 2 * (b), 3 * (b), 4 * (b), 5 * (b), 6 * (b), 7 * (b)
#define PICK(b) \
    { \
        static const char gather[64] __attribute__((aligned(64))) = { \
            Q(0, b), Q(1, b), Q(2, b), Q(3, b), Q(4, b), Q(5, b), Q(6, b), Q(7, b)}; \
        static const char shift[64] \
            __attribute__((aligned(64))) = {S(b), S(b), S(b), S(b), S(b), S(b), S(b), S(b)}; \
        __m512i x = KERNEL(load_bytes)(p, 8 * (b)); \
        x = _mm512_permutexvar_epi8(_mm512_load_si512(gather), x); \
        x = _mm512_multishift_epi64_epi8(_mm512_load_si512(shift), x); \
        return _mm512_and_si512(x, _mm512_set1_epi8((1 << (b)) - 1)); \
    }
#else
#define PICK(b) \
    { \
        static const char lo[64] __attribute__((aligned(64))) = { \
            SHUFFLE(0, 0, b), SHUFFLE(1, 0, b), SHUFFLE(2, 0, b), SHUFFLE(3, 0, b)}; \
        static const char hi[64] __attribute__((aligned(64))) = { \
            SHUFFLE(0, 8, b), SHUFFLE(1, 8, b), SHUFFLE(2, 8, b), SHUFFLE(3, 8, b)}; \
        static const short top[32] \
            __attribute__((aligned(64))) = {TOPS(b), TOPS(b), TOPS(b), TOPS(b)}; \
        __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(p + WINDOW(0, b)))); \
        x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(p + WINDOW(1, b))), 1); \
        x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(p + WINDOW(2, b))), 2); \
        x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(p + WINDOW(3, b))), 3); \
        __m512i t = _mm512_load_si512(top); \
        __m512i l = _mm512_srli_epi16( \
            _mm512_mullo_epi16(_mm512_shuffle_epi8(x, _mm512_load_si512(lo)), t), 16 - (b)); \
        __m512i h = _mm512_srli_epi16( \
            _mm512_mullo_epi16(_mm512_shuffle_epi8(x, _mm512_load_si512(hi)), t), 16 - (b)); \
        return _mm512_packus_epi16(l, h); \
    }
#endif

SIMD codes64 c_load(const uint8_t *p, int bits) {
    switch (bits) {
    case 2: PICK(2)
    case 3: PICK(3)
    case 5: PICK(5)
    case 6: PICK(6)
    case 4: {
        __m512i x = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
        return _mm512_and_si512(_mm512_or_si512(x, _mm512_slli_epi16(x, 4)), _mm512_set1_epi8(15));
    }
    }
    return _mm512_loadu_si512(p);
}
SIMD void c_store(uint8_t *p, codes64 c) { _mm512_storeu_si512(p, c); }
// Returns codes [16i, 16i+16) as floats.
SIMD f32x16 c_float(codes64 c, int i) {
    __m128i x = i == 0   ? _mm512_castsi512_si128(c)
                : i == 1 ? _mm512_extracti32x4_epi32(c, 1)
                : i == 2 ? _mm512_extracti32x4_epi32(c, 2)
                         : _mm512_extracti32x4_epi32(c, 3);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x));
}
#undef Q
#undef S

#elif ISA == ISA_AVX2

typedef struct {
    __m256i a, b;
} codes64; // codes 0-31, 32-63

SIMD __m256i KERNEL(load_pair)(const uint8_t *p, const uint8_t *q) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)q), 1);
}
SIMD __m256i KERNEL(pick)(__m256i x, const char *lo, const char *hi, const short *top, int bits) {
    __m256i t = _mm256_load_si256((const __m256i *)top);
    __m256i l = _mm256_srli_epi16(
        _mm256_mullo_epi16(_mm256_shuffle_epi8(x, _mm256_load_si256((const __m256i *)lo)), t),
        16 - bits);
    __m256i h = _mm256_srli_epi16(
        _mm256_mullo_epi16(_mm256_shuffle_epi8(x, _mm256_load_si256((const __m256i *)hi)), t),
        16 - bits);
    return _mm256_packus_epi16(l, h);
}
#define PICK(b) \
    { \
        static const char lo[64] __attribute__((aligned(64))) = { \
            SHUFFLE(0, 0, b), SHUFFLE(1, 0, b), SHUFFLE(2, 0, b), SHUFFLE(3, 0, b)}; \
        static const char hi[64] __attribute__((aligned(64))) = { \
            SHUFFLE(0, 8, b), SHUFFLE(1, 8, b), SHUFFLE(2, 8, b), SHUFFLE(3, 8, b)}; \
        static const short top[16] __attribute__((aligned(64))) = {TOPS(b), TOPS(b)}; \
        return (codes64){ \
            KERNEL(pick)(KERNEL(load_pair)(p + WINDOW(0, b), p + WINDOW(1, b)), lo, hi, top, b), \
            KERNEL(pick)(KERNEL(load_pair)(p + WINDOW(2, b), p + WINDOW(3, b)), lo + 32, hi + 32, \
                         top, b)}; \
    }
SIMD __m256i KERNEL(nibbles)(const uint8_t *p) {
    __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
    return _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi16(x, 4)), _mm256_set1_epi8(15));
}
SIMD codes64 c_load(const uint8_t *p, int bits) {
    switch (bits) {
    case 2: PICK(2)
    case 3: PICK(3)
    case 5: PICK(5)
    case 6: PICK(6)
    case 4: return (codes64){KERNEL(nibbles)(p), KERNEL(nibbles)(p + 16)};
    }
    return (codes64){_mm256_loadu_si256((const __m256i *)p),
                     _mm256_loadu_si256((const __m256i *)(p + 32))};
}
SIMD void c_store(uint8_t *p, codes64 c) {
    _mm256_storeu_si256((__m256i *)p, c.a);
    _mm256_storeu_si256((__m256i *)(p + 32), c.b);
}
SIMD f32x16 c_float(codes64 c, int i) {
    __m256i half = i < 2 ? c.a : c.b;
    __m128i x = i % 2 ? _mm256_extracti128_si256(half, 1) : _mm256_castsi256_si128(half);
    return (f32x16){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)),
                    _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}

#elif ISA == ISA_NEON

typedef struct {
    uint8x16_t v[4];
} codes64; // codes 0-15, 16-31, 32-47, 48-63

SIMD uint8x16_t KERNEL(pick)(const uint8_t *p, const char *lo, const char *hi, const short *top,
                             int bits) {
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t t = vld1q_u16((const uint16_t *)top);
    int16x8_t down = vdupq_n_s16((int16_t)(bits - 16));
    uint16x8_t l = vshlq_u16(
        vmulq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(x, vld1q_u8((const uint8_t *)lo))), t), down);
    uint16x8_t h = vshlq_u16(
        vmulq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(x, vld1q_u8((const uint8_t *)hi))), t), down);
    return vcombine_u8(vmovn_u16(l), vmovn_u16(h));
}
#define PICK(b) \
    { \
        static const char lo[64] = {SHUFFLE(0, 0, b), SHUFFLE(1, 0, b), SHUFFLE(2, 0, b), \
                                    SHUFFLE(3, 0, b)}; \
        static const char hi[64] = {SHUFFLE(0, 8, b), SHUFFLE(1, 8, b), SHUFFLE(2, 8, b), \
                                    SHUFFLE(3, 8, b)}; \
        static const short top[8] = {TOPS(b)}; \
        return (codes64){{KERNEL(pick)(p + WINDOW(0, b), lo, hi, top, b), \
                          KERNEL(pick)(p + WINDOW(1, b), lo + 16, hi + 16, top, b), \
                          KERNEL(pick)(p + WINDOW(2, b), lo + 32, hi + 32, top, b), \
                          KERNEL(pick)(p + WINDOW(3, b), lo + 48, hi + 48, top, b)}}; \
    }
SIMD codes64 c_load(const uint8_t *p, int bits) {
    switch (bits) {
    case 2: PICK(2)
    case 3: PICK(3)
    case 5: PICK(5)
    case 6: PICK(6)
    case 4: {
        uint8x16_t x = vld1q_u8(p), y = vld1q_u8(p + 16), mask = vdupq_n_u8(15);
        uint8x16_t xl = vandq_u8(x, mask), xh = vshrq_n_u8(x, 4), yl = vandq_u8(y, mask),
                   yh = vshrq_n_u8(y, 4);
        return (codes64){
            {vzip1q_u8(xl, xh), vzip2q_u8(xl, xh), vzip1q_u8(yl, yh), vzip2q_u8(yl, yh)}};
    }
    }
    return (codes64){{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
SIMD void c_store(uint8_t *p, codes64 c) {
    for (int i = 0; i < 4; i++) vst1q_u8(p + 16 * i, c.v[i]);
}
SIMD f32x16 c_float(codes64 c, int i) {
    uint16x8_t lo = vmovl_u8(vget_low_u8(c.v[i])), hi = vmovl_u8(vget_high_u8(c.v[i]));
    return (f32x16){
        {vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(lo))),
         vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(hi)))}};
}

#endif
#undef PICK
#undef WINDOW
#undef AT
#undef SHUFFLE
#undef TOP
#undef TOPS

// Loads the first 32 codes of 64; the others are zero. This is the end of a row whose width is an
// odd number of groups of 32.
SIMD codes64 c_load_half(const uint8_t *p, int bits) {
    uint8_t t[64] = {0};
    memcpy(t, p, (size_t)(4 * bits));
    return c_load(t, bits);
}

// Loads elements [at, at+16) of a row of n scales, biases or plain weights of dtype. Those from n
// on are zero.
SIMD f32x16 v_load_param(const void *row, int dtype, int64_t at, int64_t n) {
    if (dtype == DTYPE_F32) {
        const float *p = (const float *)row + at;
        return n - at >= 16 ? v_load(p) : v_load_n(p, n > at ? (int)(n - at) : 0);
    }
    const uint16_t *p = (const uint16_t *)row + at;
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
    // Masked, because a detour through memory would wait for its stores. In a narrow matrix every
    // load is such a load.
    __m256i x = _mm256_maskz_loadu_epi16(
        n - at >= 16 ? 0xffff : (__mmask16)((1u << (n > at ? n - at : 0)) - 1), p);
    return dtype == DTYPE_BF16
               ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))
               : _mm512_cvtph_ps(x);
#else
    uint16_t t[16] = {0};
    if (n - at < 16) {
        for (int i = 0; i < n - at; i++) t[i] = p[i];
        p = t;
    }
    return dtype == DTYPE_BF16 ? v_load_bf16(p) : v_load_f16(p);
#endif
}

// Dequantizes a row of k elements to out, which has room for k rounded up to 16. With bits 0 the
// elements are plain, of dtype.
SIMD void affine_row_bits(const uint8_t *codes, const void *scales, const void *biases, int dtype,
                          int bits, int group, int64_t k, float *out) {
    float s[16], b[16];
    int per = group / 16, groups = (int)(k / group);
    for (int64_t at = 0; at < k; at += 64) {
        int64_t first = at / group;
        if (at % (16 * group) == 0) {
            v_store(s, v_load_param(scales, dtype, first, groups));
            v_store(b, v_load_param(biases, dtype, first, groups));
        }
        codes64 c = k - at >= 64 ? c_load(codes + at / 8 * bits, bits)
                                 : c_load_half(codes + at / 8 * bits, bits);
        int vectors = k - at >= 64 ? 4 : 2;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            if (i == vectors) break;
            int g = (int)(at / 16 + i) / per % 16;
            v_store(out + at + 16 * i, v_fma(c_float(c, i), v_set1(s[g]), v_set1(b[g])));
        }
    }
}
static __attribute__((unused)) void affine_row(const uint8_t *codes, const void *scales,
                                               const void *biases, int dtype, int bits, int group,
                                               int64_t k, float *out) {
    switch (bits) {
    case 0:
        for (int64_t at = 0; at < k; at += 16) v_store(out + at, v_load_param(codes, dtype, at, k));
        break;
    case 2: affine_row_bits(codes, scales, biases, dtype, 2, group, k, out); break;
    case 3: affine_row_bits(codes, scales, biases, dtype, 3, group, k, out); break;
    case 4: affine_row_bits(codes, scales, biases, dtype, 4, group, k, out); break;
    case 5: affine_row_bits(codes, scales, biases, dtype, 5, group, k, out); break;
    case 6: affine_row_bits(codes, scales, biases, dtype, 6, group, k, out); break;
    case 8: affine_row_bits(codes, scales, biases, dtype, 8, group, k, out); break;
    }
}
