// Quantized weights times rounded activations. A unit is 64 elements of a row, or 32 in groups of
// 32: the sum of its products is an integer, exact on every instruction set, and goes to one of
// sixteen float32 accumulators:
//
//     acc[u % 16] = fma(float(dot of unit u), weight scale * activation scale, acc[u % 16])
//     acc[u % 16] = fma(bias, sum of the rounded activations of the unit, acc[u % 16])          unit after unit
//
// MXFP4's elements are doubled values here, its scales half of theirs, and it has no biases. Values
// are multiplied as bytes from 0 on, and what that adds to a dot is taken off again, exactly. and
// out = the sum of the accumulators, as v_sum adds lanes. That is all the arithmetic there is for
// an element, whatever the loops around it: few rows of activations read packed weights straight
// (int8_few.h), some a slice of them (int8_slice.h), many share a panel (int8_panel.h, int8_amx.h).
#ifdef ISA
#include "affine.h"
#include "mxfp4.h"
#include "int8_few.h"
#include "int8_pack.h"
#include "int8_panel.h"

#if ISA == ISA_VNNI
#include "int8_slice.h"
// Up to so many rows of activations take slices, with the matrix unit and without it, and come
// unpacked (input.go).
#define SLICES_AMX 12
#define SLICES SLICE_INPUTS
#endif

static void KERNEL(int8_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const void *packed,
                              const matmul_rows *r, void *scratch) {
    if (r->count <= FEW)
        KERNEL(few_rows)(w, from, to, q, runs, r);
#if ISA == ISA_VNNI
    else if (r->count <= SLICES)
        KERNEL(slice_rows)(w, from, to, q, runs, r);
#endif
    else
        KERNEL(panel_rows)(w, from, to, packed, r, scratch);
}

#if ISA == ISA_VNNI
#if !defined(__clang__) && __GNUC__ >= 11
#include "int8_amx.h"
static void int8_rows_amx(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const void *packed,
                          const matmul_rows *r, void *scratch) {
    if (r->count <= SLICES_AMX)
        KERNEL(int8_rows)(w, from, to, q, runs, packed, r, scratch);
    else
        KERNEL(amx_rows)(w, from, to, packed, r, scratch);
}
#else // GCC before 11 knows no AMX, and clang takes one set of targets for a function
static void int8_rows_amx(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const void *packed,
                          const matmul_rows *r, void *scratch) {
    KERNEL(int8_rows)(w, from, to, q, runs, packed, r, scratch);
}
#endif
#endif
#undef MM
#undef MMI
#undef E2M1_OFFSET

#else

#include "matmul.h"
#include "int8_pack.h"
#define KERNEL_USES_VNNI
#define KERNEL_USES_AMX
#define KERNEL_SOURCE "int8.c"
#include "foreach_isa.h"

void headroom_matmul_pack(int64_t k, int64_t unit, int64_t sums, int64_t split, const matmul_rows *r, int64_t from, int64_t to, const int8_t *q,
                          const float *runs, void *packed) {
    pack_rows(k, unit, sums, split, r, from, to, q, runs, packed);
}

void headroom_matmul_int8(int isa, const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const void *packed,
                          const matmul_rows *r, void *scratch) {
    DISPATCH(isa, int8_rows, (w, from, to, q, runs, packed, r, scratch));
}

#endif
