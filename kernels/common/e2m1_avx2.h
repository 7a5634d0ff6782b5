// The primitives of mxfp4.h for AVX2.

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
SIMD f32x16 v_e8m0(const uint8_t *p) {
    return (f32x16){KERNEL(e8m0_half)(p), KERNEL(e8m0_half)(p + 8)};
}
