// Multiplies quantized weights with rounded activations. A unit is 64 elements of a row, or 32 in
// groups of 32. The sum of its products is an integer, exact on every instruction set, and is added
// to one of sixteen float32 accumulators, unit after unit:
//
//     scale = weight scale * activation scale
//     acc[u % 16] = fma(float(dot of unit u), scale, acc[u % 16])
//     acc[u % 16] = fma(bias, sum of the rounded activations of the unit, acc[u % 16])
//
// An output is the sum of the accumulators in the order of v_sum. For MXFP4 elements are doubled
// and scales halved, and there are no biases. An offset makes its elements unsigned bytes for the
// products, and what the offset adds to a dot is subtracted again, exactly. All paths use this
// arithmetic and differ only in their loops: few rows of activations read packed weights directly
// (int8_few.h), some read a slice of them (int8_slice.h, int8_slice4.h), and many share a panel
// (int8_panel.h, int8_amx.h).
#ifdef ISA
#include "../common/affine.h"
#include "../common/mxfp4.h"
#include "policy.h"
#include "lanes.h"
#include "int8_few.h"
#include "int8_pack.h"
#include "int8_panel.h"
#if MAX_SLICE_ROWS
#include "int8_slice.h"
#include "int8_slice4.h"
#endif

static const struct matmul_policy KERNEL(policy) = {MAX_SLICE_ROWS ? MAX_SLICE_ROWS : MAX_FEW_ROWS,
                                                    PANEL_SPLIT, WEIGHT_STREAMS, MAX_SLICE4_ROWS};

static void KERNEL(int8_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                              const float *params, const void *packed, const matmul_rows *r,
                              void *scratch) {
#if MAX_SLICE_ROWS
    // With fewer units, adding up the accumulators costs one or two rows more than slices save.
    if (w->bits == 4 && r->count <= MAX_SLICE4_ROWS &&
        (r->count > 2 || w->k / matmul_unit(w) >= 16))
        KERNEL(slice4_rows)(w, from, to, q, params, r);
    else
#endif
        if (r->count <= MAX_FEW_ROWS)
        KERNEL(few_rows)(w, from, to, q, params, r);
#if MAX_SLICE_ROWS
    else if (r->count <= MAX_SLICE_ROWS) KERNEL(slice_rows)(w, from, to, q, params, r);
#endif
    else KERNEL(panel_rows)(w, from, to, packed, r, scratch);
}

#if ISA == ISA_VNNI
static const struct matmul_policy policy_amx = {MAX_SLICE_ROWS_AMX, PANEL_SPLIT, WEIGHT_STREAMS, 0};

// GCC before 11 does not support AMX, and clang allows one set of targets for a function.
#if !defined(__clang__) && __GNUC__ >= 11
#include "int8_amx.h"
#else
#define amx_rows_vnni panel_rows_vnni
#endif

static void int8_rows_amx(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                          const float *params, const void *packed, const matmul_rows *r,
                          void *scratch) {
    if (r->count <= MAX_FEW_ROWS) KERNEL(few_rows)(w, from, to, q, params, r);
    else if (r->count <= MAX_SLICE_ROWS_AMX) KERNEL(slice_rows)(w, from, to, q, params, r);
    else KERNEL(amx_rows)(w, from, to, packed, r, scratch);
}
#endif
#undef E2M1_OFFSET

#else

#include "matmul.h"
#include "int8_pack.h"
#define KERNEL_USES_VNNI
#define KERNEL_USES_AMX
#define KERNEL_SOURCE "int8.c"
#include "../common/foreach_isa.h"

void headroom_matmul_policy(int isa, struct matmul_policy *p) {
    DISPATCH(isa, *p = policy, ); // KERNEL(policy) of the instruction set
}

void matmul_int8(int isa, const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                 const float *params, const void *packed, const matmul_rows *r, void *scratch) {
    DISPATCH(isa, int8_rows, (w, from, to, q, params, packed, r, scratch));
}

#endif
