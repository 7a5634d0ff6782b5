// v_sums16 and v_hmaxes16 compute v_sum and v_hmax of sixteen vectors at once: lane i has the
// result of vector i. Each vector is reduced by a tree of operations. On AVX-512 and AVX2 one
// operation does a step of several trees, so there are fewer instructions. The order is that of
// v_sum, so the bits are the same. On AVX2 highest8 finds the highest magnitudes of eight
// vectors in the same way. The file of each instruction set defines them (trees_avx512.h,
// trees_avx2.h, trees_neon.h). Included once per set, after simd.h.

#define v_sums16 KERNEL(v_sums16)
#define v_hmaxes16 KERNEL(v_hmaxes16)
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "trees_avx512.h"
#elif ISA == ISA_AVX2
#include "trees_avx2.h"
#elif ISA == ISA_NEON
#include "trees_neon.h"
#endif
