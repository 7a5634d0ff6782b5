// The primitive of mxfp8.h for AVX2.

#include "e4m3_x86.h"

SIMD f32x16 v_load_e4m3(const uint8_t *p) {
    __m256i x = KERNEL(e4m3_half)(p);
    return v_mul((f32x16){_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
                          _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))},
                 v_set1(E4M3_FACTOR));
}
