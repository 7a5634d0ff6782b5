// store_codes of round.c with AVX-512.

SIMD void KERNEL(store_codes)(int8_t *q, int8_t *split, const f32x16 *v) {
    __m512i x[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        x[j] = _mm512_sub_epi32(_mm512_castps_si512(v[j]),
                                _mm512_castps_si512(_mm512_set1_ps(V_ROUNDER)));
    // 128-bit lane i: the i-th four values of each x[j]
    const __m512i all =
        _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
    const __m512i codes = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), all);
    _mm512_storeu_si512(q, codes);
    _mm256_storeu_si256((__m256i *)split, _mm512_cvtepi16_epi8(codes));
    _mm256_storeu_si256((__m256i *)(split + 64), _mm512_cvtepi16_epi8(_mm512_srli_epi16(codes, 8)));
}
