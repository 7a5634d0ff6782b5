// The primitives of kv_codes.h for AVX2.

#define LANES 8
#define MM(op) _mm256_##op
#define MMI(op) _mm256_##op##_si256
typedef __m256i lanes_i;
typedef __m256 lanes_f;
SIMD lanes_i l_spread(const uint8_t *p, const int width, const int v, const int h) {
    if (width == 2)
        return _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)p), 2 * (2 * v + h));
    const __m256i from = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    return _mm256_srlv_epi32(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)),
        _mm256_add_epi32(from, _mm256_set1_epi32(4 * v + 2 * h)));
}
SIMD lanes_f l_part(f32x16 x, const int h) { return h ? x.b : x.a; }

SIMD void store_codes(uint8_t *codes, f32x16 x) {
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)), 0xd8);
    _mm_storeu_si128((__m128i *)codes,
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

// An f32x16 is two registers. Blocks of one and two rows have eight registers of sums: eight
// independent chains of additions hide the latency that four would not.
#define MAX_N(rows) ((rows) == 1 ? 4 : (rows) == 2 ? 2 : 1)
#define EACH_BLOCK BLOCK(1, 4) BLOCK(1, 2) BLOCK(2, 2) BLOCKS(1)

#include "kv_lanes_x86.h"
