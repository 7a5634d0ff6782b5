// The primitive of mxfp8.h for AVX-512.

#include "e4m3_x86.h"

SIMD f32x16 v_load_e4m3(const uint8_t *p) {
    return v_mul(_mm512_cvtph_ps(KERNEL(e4m3_half)(p)), v_set1(E4M3_FACTOR));
}
