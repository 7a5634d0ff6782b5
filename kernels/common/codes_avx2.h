// The primitives of affine.h for AVX2.

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

SIMD f32x16 v_load_param(const void *row, int dtype, int64_t at, int64_t n) {
    if (dtype == DTYPE_F32) {
        const float *p = (const float *)row + at;
        return n - at >= 16 ? v_load(p) : v_load_n(p, n > at ? (int)(n - at) : 0);
    }
    const uint16_t *p = (const uint16_t *)row + at;
    uint16_t t[16] = {0};
    if (n - at < 16) {
        for (int i = 0; i < n - at; i++) t[i] = p[i];
        p = t;
    }
    return dtype == DTYPE_BF16 ? v_load_bf16(p) : v_load_f16(p);
}
