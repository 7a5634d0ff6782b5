// The primitives of kv_ints.h for AVX2.

#define V_FOUR(q) ((q) / 2 + (q) % 2 * 2)
#define STORE_PAIRS 0
#define QUERY_BYTES 2

SIMD __m256i KERNEL(shorts)(f32x16 x) {
    return _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)), 0xd8);
}
SIMD void store_query(uint8_t *q, f32x16 x) {
    const __m256i s = KERNEL(shorts)(x); // swap the second and the third of each four
    _mm256_storeu_si256(
        (__m256i *)q, _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(s, 0xd8), 0xd8));
}

SIMD f32x16 store_tile(uint8_t *weights, const f32x16 *y) {
    const __m256i zero = _mm256_castps_si256(_mm256_set1_ps(V_ROUNDER));
    __m256i a = _mm256_setzero_si256(), b = a;
#pragma GCC unroll 4
    for (int i = 0; i < TILE / 16; i++) {
        const __m256i low = _mm256_sub_epi32(_mm256_castps_si256(y[i].a), zero),
                      high = _mm256_sub_epi32(_mm256_castps_si256(y[i].b), zero);
        _mm256_storeu_si256((__m256i *)weights + i, _mm256_packs_epi32(low, high));
        a = _mm256_add_epi32(a, low), b = _mm256_add_epi32(b, high);
    }
    return (f32x16){_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)}; // exact
}

#include "kv_ints_x86.h"
