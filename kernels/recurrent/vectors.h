// The primitives of the recurrent kernels that simd.h lacks. The file of each instruction set
// (vectors_avx512.h, vectors_avx2.h, vectors_neon.h) defines them under the same names, so the
// algorithms need no code for a particular set. Included once per set, after simd.h.
//
// v_bf16(x)              rounds to bfloat16, to nearest even, and back
// v_load_i8, v_store_i8  sixteen bytes as floats; stored floats must be integers in their range
// fold4, fold16          sixteen sums over lanes at once, with the order and the bits of v_sum: one
//                        addition combines halves of two vectors, as v_sum combines the halves of
//                        each. fold4 reduces four vectors to a quad of partial sums, and fold16
//                        reduces four quads to their sums, vector i in lane i. With largest, a
//                        constant after inlining, they compute v_hmax instead.
// ROWS_AT_ONCE           value rows whose dot products run at once, as measured (PERF.md)
// FLOAT_PASS_WIDTH       the width of float32 rows, that of current models, for which the set has a
//                        pass of its own (float_pass.h), 0 for none
#undef ROWS_AT_ONCE
#undef FLOAT_PASS_WIDTH

#define v_bf16 KERNEL(v_bf16)
#define v_load_i8 KERNEL(v_load_i8)
#define v_store_i8 KERNEL(v_store_i8)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "vectors_avx512.h"
#elif ISA == ISA_AVX2
#include "vectors_avx2.h"
#elif ISA == ISA_NEON
#include "vectors_neon.h"
#endif
