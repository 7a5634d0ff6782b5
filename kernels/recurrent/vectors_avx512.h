// The primitives of vectors.h for AVX-512.

#define ROWS_AT_ONCE 4
#define FLOAT_PASS_WIDTH 0

SIMD f32x16 v_bf16(f32x16 a) {
    __m512i x = _mm512_castps_si512(a),
            odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    x = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)));
}
SIMD f32x16 v_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
SIMD void v_store_i8(int8_t *p, f32x16 a) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}

typedef __m512 KERNEL(quad); // quarter j: row j
SIMD f32x16 KERNEL(meet)(const int largest, f32x16 x, f32x16 y) {
    return largest ? v_max(x, y) : v_add(x, y);
}

SIMD KERNEL(quad) KERNEL(fold4)(const int largest, const f32x16 *a) {
    f32x16 b[2];
    for (int i = 0; i < 2; i++)
        b[i] = KERNEL(meet)(largest, _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x44),
            _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xee));
    return KERNEL(meet)(
        largest, _mm512_shuffle_f32x4(b[0], b[1], 0x88), _mm512_shuffle_f32x4(b[0], b[1], 0xdd));
}

SIMD f32x16 KERNEL(fold16)(const int largest, const KERNEL(quad) *c) {
    f32x16 d[2];
    for (int i = 0; i < 2; i++) {
        __m512d x = _mm512_castps_pd(c[2 * i]), y = _mm512_castps_pd(c[2 * i + 1]);
        d[i] = KERNEL(meet)(largest, _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    // lane 4j+i: row j of quad i
    f32x16 e = KERNEL(meet)(
        largest, _mm512_shuffle_ps(d[0], d[1], 0x88), _mm512_shuffle_ps(d[0], d[1], 0xdd));
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), e);
}
