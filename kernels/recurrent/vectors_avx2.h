// The primitives of vectors.h for AVX2.

#define ROWS_AT_ONCE 1
#define FLOAT_PASS_WIDTH 128

SIMD __m256 KERNEL(bf16_half)(__m256 a) {
    __m256i x = _mm256_castps_si256(a),
            odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    x = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000)));
}
SIMD f32x16 v_bf16(f32x16 x) { return (f32x16){KERNEL(bf16_half)(x.a), KERNEL(bf16_half)(x.b)}; }
SIMD f32x16 v_load_i8(const int8_t *p) {
    __m128i x = _mm_loadu_si128((const __m128i *)p);
    return (f32x16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
SIMD void v_store_i8(int8_t *p, f32x16 x) {
    // lanes 0-3, 8-11, 4-7, 12-15
    __m256i pairs = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    pairs = _mm256_permute4x64_epi64(pairs, 0xd8);
    _mm_storeu_si128((__m128i *)p,
        _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

typedef __m256 KERNEL(quad); // pairs of lanes: rows 0, 1, 2, 3
SIMD __m256 KERNEL(meet)(const int largest, __m256 x, __m256 y) {
    return largest ? _mm256_max_ps(x, y) : _mm256_add_ps(x, y);
}

SIMD KERNEL(quad) KERNEL(fold4)(const int largest, const f32x16 *a) {
    __m256d b[2];
    for (int i = 0; i < 2; i++) {
        __m256 u = KERNEL(meet)(largest, a[i].a, a[i].b),
               v = KERNEL(meet)(largest, a[i + 2].a, a[i + 2].b);
        b[i] = _mm256_castps_pd(KERNEL(meet)(
            largest, _mm256_permute2f128_ps(u, v, 0x20), _mm256_permute2f128_ps(u, v, 0x31)));
    }
    return KERNEL(meet)(largest, _mm256_castpd_ps(_mm256_unpacklo_pd(b[0], b[1])),
        _mm256_castpd_ps(_mm256_unpackhi_pd(b[0], b[1])));
}

SIMD f32x16 KERNEL(fold16)(const int largest, const KERNEL(quad) *c) {
    __m256 half[2];
    for (int h = 0; h < 2; h++) {
        __m256 e = KERNEL(meet)(largest, _mm256_shuffle_ps(c[2 * h], c[2 * h + 1], 0x88),
            _mm256_shuffle_ps(c[2 * h], c[2 * h + 1], 0xdd));
        half[h] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(e), 0xd8));
    }
    return (f32x16){half[0], half[1]};
}
