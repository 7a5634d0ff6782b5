// store_codes of round.c with AVX2.

SIMD void KERNEL(store_codes)(int8_t *q, int8_t *split, const f32x16 *v) {
    const __m256i zero = _mm256_castps_si256(_mm256_set1_ps(V_ROUNDER)),
                  low = _mm256_set1_epi16(255);
    __m256i words[4], codes[2];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        words[j] = _mm256_packs_epi32(_mm256_sub_epi32(_mm256_castps_si256(v[j].a), zero),
                                      _mm256_sub_epi32(_mm256_castps_si256(v[j].b), zero));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        codes[i] = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words[2 * i], words[2 * i + 1]),
                                               _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(q + 32 * i), codes[i]);
    }
    const __m256i even =
        _mm256_packus_epi16(_mm256_and_si256(codes[0], low), _mm256_and_si256(codes[1], low));
    const __m256i odd =
        _mm256_packus_epi16(_mm256_srli_epi16(codes[0], 8), _mm256_srli_epi16(codes[1], 8));
    _mm256_storeu_si256((__m256i *)split, _mm256_permute4x64_epi64(even, 0xd8));
    _mm256_storeu_si256((__m256i *)(split + 32), _mm256_permute4x64_epi64(odd, 0xd8));
}
