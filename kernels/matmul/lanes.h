// The primitives of the integer kernels. The file of each instruction set (lanes_avx512.h,
// lanes_avx2.h, lanes_neon.h) defines them under the same names, so the algorithms need no code for
// a particular set. Included once per set, after affine.h, mxfp4.h and policy.h.
//
// LANES                  sums of 32 bits in a vector
// lanes, l_zero, l_add   such a vector
// l_merge(a, b, level, narrow)
//                        adds within a and b so that the sums of a unit come together. After levels
//                        1 and 2 a quarter of the vector has a lane for each of four units; levels
//                        3 and 4 join quarters. narrow is NARROW's.
// l_order(x, units)      puts the units of a merged vector in order. units is UNITS of the leaf.
// l_dot(acc, codes, q, wide)
//                        acc + products of unsigned codes and signed bytes, four to a lane. wide:
//                        codes may exceed 128, which products of 16 bits do not hold.
// UNITS(bits, unit)      units in a vector of leaf's sums
// NARROW(mode, bits)     how long sums fit in 16 bits. With AVX-512 it is the last level of l_merge
//                        at which they do. With AVX2 it is how many vectors of sums can be added:
//                        4 or 2, or 1 if sums have 32 bits from the beginning.
// leaf(block, i, ...)    vector i of a block of sixteen units: products of its codes with mr rows
// lanesf, lf_*           a vector of LANES floats; lf_fma(a, b, c) = a*b + c, lf_of converts
// p_load, p_store        lanes in memory
// p_four(q)              four codes in every lane (x86)
// p_transpose(x)         transposes LANES vectors
// p_columns, p_apart     load packed codes of 4 bits by columns, and split them (x86)
// c_part(codes, i)       part i of 64 codes: LANES fours of them
// as_floats(sums)        sixteen sums as floats
// p_unit(codes, q, mr, unit, fits, sums)
//                        the products of a unit of a panel with mr rows of activations (not AVX2).
//                        fits is the number of sums of two products that 16 bits hold when they
//                        are added: 8 for codes up to 15, 2 up to 63, 0 for codes of 8 bits
// EACH_FITS(F), FITS_OF  the values of fits that the set has, and the one for codes up to 15, up to
//                        63 and of 8 bits (not AVX2)
#undef LANES
#undef MM
#undef MMI
#undef UNITS
#undef NARROW
#undef EACH_FITS
#undef FITS_OF
#undef FEW_ROWS
#undef PANEL_ROWS
#undef PANEL_INPUTS

#define FEW_ROWS 4             // rows of activations that share an unpacked weight (int8_few.h)
#define PANEL_ROWS (2 * LANES) // rows of a weight in a panel (int8_panel.h)
#define PANEL_INPUTS 8         // most rows of activations of p_unit

#define lanes KERNEL(lanes)
#define l_zero KERNEL(l_zero)
#define l_add KERNEL(l_add)
#define l_merge KERNEL(l_merge)
#define lanesf KERNEL(lanesf)
#define lf_load KERNEL(lf_load)
#define lf_store KERNEL(lf_store)
#define lf_set1 KERNEL(lf_set1)
#define lf_mul KERNEL(lf_mul)
#define lf_add KERNEL(lf_add)
#define lf_fma KERNEL(lf_fma)
#define lf_of KERNEL(lf_of)
#define p_load KERNEL(p_load)
#define p_transpose KERNEL(p_transpose)
#define p_unit KERNEL(p_unit)
#define c_part KERNEL(c_part)
#define as_floats KERNEL(as_floats)

// The operands of a block of sixteen units.
#define block KERNEL(block)
typedef struct {
    const uint8_t *codes, *ahead; // packed, and the address to prefetch
    const int8_t *q[FEW_ROWS];    // in order; for codes of 4 bits, even and odd elements apart
} block;

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "lanes_avx512.h"
#elif ISA == ISA_AVX2
#include "lanes_avx2.h"
#else
#include "lanes_neon.h"
#endif
