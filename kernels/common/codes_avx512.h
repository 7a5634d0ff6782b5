// The primitives of affine.h for AVX-512.

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
SIMD f32x16 c_float(codes64 c, int i) {
    __m128i x = i == 0   ? _mm512_castsi512_si128(c)
                : i == 1 ? _mm512_extracti32x4_epi32(c, 1)
                : i == 2 ? _mm512_extracti32x4_epi32(c, 2)
                         : _mm512_extracti32x4_epi32(c, 3);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x));
}
#undef Q
#undef S

SIMD f32x16 v_load_param(const void *row, int dtype, int64_t at, int64_t n) {
    if (dtype == DTYPE_F32) {
        const float *p = (const float *)row + at;
        return n - at >= 16 ? v_load(p) : v_load_n(p, n > at ? (int)(n - at) : 0);
    }
    const uint16_t *p = (const uint16_t *)row + at;
    // A masked load. Copying an incomplete vector to the stack and loading it from there would wait
    // for the stores, and in a narrow matrix every vector of parameters is incomplete.
    __m256i x = _mm256_maskz_loadu_epi16(
        n - at >= 16 ? 0xffff : (__mmask16)((1u << (n > at ? n - at : 0)) - 1), p);
    return dtype == DTYPE_BF16
               ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))
               : _mm512_cvtph_ps(x);
}
