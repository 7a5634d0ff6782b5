// The primitives of kv_codes.h for AVX-512.

#define LANES 16
#define MM(op) _mm512_##op
#define MMI(op) _mm512_##op##_si512
typedef __m512i lanes_i;
typedef __m512 lanes_f;
SIMD lanes_i l_spread(const uint8_t *p, const int width, const int v, const int h) {
    (void)h;
    if (width == 2) {
        const __m512i from = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
        return _mm512_srlv_epi32(_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p)),
            _mm512_add_epi32(from, _mm512_set1_epi32(4 * v)));
    }
    const __m512i from = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_srlv_epi32(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p)),
        _mm512_add_epi32(from, _mm512_set1_epi32(4 * v)));
}
SIMD lanes_f l_part(f32x16 x, const int h) { return (void)h, x; }

SIMD void store_codes(uint8_t *codes, f32x16 x) {
    _mm_storeu_si128((__m128i *)codes, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x)));
}

// A block of 6 rows and 4 columns takes 29 of the 32 registers: 24 sums, 4 of B and 1 of A.
#define MAX_N(rows) 4
#define EACH_BLOCK BLOCKS(4) BLOCKS(2) BLOCK(8, 2) BLOCKS(1)

#include "kv_lanes_x86.h"
