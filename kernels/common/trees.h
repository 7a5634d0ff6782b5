// v_sum or v_hmax of sixteen vectors at once; lane i has that of vector i. A step of two vectors'
// trees is one operation, which takes a quarter of the instructions. The order is that of v_sum, so
// the bits are the same. On AVX2 highest8 finds the highest magnitudes of eight vectors likewise.
// Included once per instruction set, after simd.h.

#define v_sums16 KERNEL(v_sums16)
#define v_hmaxes16 KERNEL(v_hmaxes16)
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "trees_avx512.h"
#elif ISA == ISA_AVX2
#include "trees_avx2.h"
#elif ISA == ISA_NEON
#include "trees_neon.h"
#endif
