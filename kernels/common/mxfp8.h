// MXFP8 weights: a code is a byte, a float of one sign, four exponent and three fraction bits
// (E4M3). Each 32 codes have a scale as in MXFP4. Included by a kernel's ISA half, so it has no
// include guard, after mxfp4.h.

#define v_load_e4m3 KERNEL(v_load_e4m3)
#define mxfp8_row KERNEL(mxfp8_row)

// The file of each instruction set (e4m3_avx512.h, e4m3_avx2.h, e4m3_neon.h) defines v_load_e4m3:
// the values of sixteen codes, doubled because v_load_e8m0 halves the scales. The bits of a code
// are those of a float16 that is 2^8 times smaller: its sign, a zero, its other bits, and seven
// zeros. Numbers that are subnormal in one format are so in the other. A code of NaN sets the zero.
// From a code in the high byte of 16 bits:
//
//     x >>= 1                      a signed shift, which repeats the sign
//     x ^= x + E4M3_ONE & E4M3_GAP the sum's bit is the sign, inverted by the carry of a NaN
#ifndef MXFP8_TABLES
#define MXFP8_TABLES
#define E4M3_ONE 0x80      // the lowest bit of the fraction
#define E4M3_GAP 0x4000    // the bit below the sign
#define E4M3_FACTOR 0x1p9f // 2^8, doubled
#endif

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "e4m3_avx512.h"
#elif ISA == ISA_AVX2
#include "e4m3_avx2.h"
#elif ISA == ISA_NEON
#include "e4m3_neon.h"
#endif

// Dequantizes a row of k elements, a multiple of 32, to out.
static __attribute__((unused)) void mxfp8_row(const uint8_t *codes, const uint8_t *scales,
                                              int64_t k, float *out) {
    float s[16];
    for (int64_t at = 0; at < k; at += 16) {
        if (at % 512 == 0) v_store(s, v_load_e8m0(scales, at / 32, k / 32));
        v_store(out + at, v_mul(v_load_e4m3(codes + at), v_set1(s[at / 32 % 16])));
    }
}
