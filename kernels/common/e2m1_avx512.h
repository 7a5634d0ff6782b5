// The primitives of mxfp4.h for AVX-512.

#define E2M1_OFFSET 12

SIMD codes64 c_e2m1(codes64 c) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_setr_epi8(E2M1(E2M1_OFFSET))), c);
}
SIMD f32x16 c_e2m1_float(codes64 c, int i) { return v_sub(c_float(c, i), v_set1(E2M1_OFFSET)); }
SIMD f32x16 v_e8m0(const uint8_t *p) {
    __m512i x = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)), 23);
    return _mm512_castsi512_ps(_mm512_max_epi32(x, _mm512_set1_epi32(1 << 22)));
}
