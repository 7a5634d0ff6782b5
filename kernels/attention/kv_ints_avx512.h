// The primitives of kv_ints.h for AVX-512.

#define V_FOUR(q) (q)
#define STORE_PAIRS 1
#if ISA == ISA_VNNI
#define QUERY_BYTES 1
#else
#define QUERY_BYTES 2
#endif

SIMD __m256i KERNEL(shorts)(f32x16 x) {
    return _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x));
}
SIMD void store_query(uint8_t *q, f32x16 x) {
#if ISA == ISA_VNNI
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
#else
    const __m256i s = KERNEL(shorts)(x); // swap the second and the third of each four
    _mm256_storeu_si256(
        (__m256i *)q, _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(s, 0xd8), 0xd8));
#endif
}

SIMD void store_weights(uint8_t *weights, int64_t i, f32x16 x, f32x16 y) {
    static const uint16_t low_words[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
        30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    _mm512_storeu_si512(weights + 2 * i,
        _mm512_permutex2var_epi16(
            _mm512_castps_si512(x), _mm512_loadu_si512(low_words), _mm512_castps_si512(y)));
}

#if ISA == ISA_VNNI
// For the matrix unit (kv_amx.h): the signed high bytes, then the signed low bytes. Group q of four
// positions of strip s has index 4q+s, and its positions are in the order of V_BYTE_OF_POSITION.
SIMD f32x16 store_tile(uint8_t *weights, const f32x16 *y) {
    const __m512i zero = _mm512_castps_si512(_mm512_set1_ps(V_ROUNDER)),
                  half = _mm512_set1_epi16(128), even = _mm512_set1_epi16(255);
    __m512i x[4], words[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) x[i] = _mm512_sub_epi32(_mm512_castps_si512(y[i]), zero);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) words[i] = _mm512_packs_epi32(x[2 * i], x[2 * i + 1]);
#define PICK(i) \
    _mm512_castps_si512( \
        _mm512_shuffle_ps(_mm512_castsi512_ps(words[0]), _mm512_castsi512_ps(words[1]), i))
    // Pairs of words: positions 0 and 1 of each four, and positions 2 and 3.
    const __m512i first = PICK(0x88), last = PICK(0xdd);
#undef PICK
#define MERGE(a, b) _mm512_ternarylogic_epi32(even, a, b, 0xca) // even bytes of a, odd bytes of b
    // The high byte compensates for the sign of the low byte.
    const __m512i first_up = _mm512_add_epi16(first, half), last_up = _mm512_add_epi16(last, half);
    _mm512_storeu_si512(weights, MERGE(_mm512_srli_epi16(first_up, 8), last_up));
    _mm512_storeu_si512(weights + TILE, MERGE(first, _mm512_slli_epi16(last, 8)));
#undef MERGE
    // exact
    return _mm512_cvtepi32_ps(
        _mm512_add_epi32(_mm512_add_epi32(x[0], x[1]), _mm512_add_epi32(x[2], x[3])));
}
#else
SIMD f32x16 store_tile(uint8_t *weights, const f32x16 *y) {
    return (void)weights, (void)y, v_zero(); // without VNNI there is no matrix unit
}
#endif

#include "kv_ints_x86.h"
