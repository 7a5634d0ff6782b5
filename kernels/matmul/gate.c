// out = silu(gate) * out, element by element, for units [from, to). A unit is up to block_cols
// columns of a row: unit u is block u % blocks of row u / blocks. Strides are in elements.
#ifdef ISA

static void KERNEL(gate)(const float *gate, ptrdiff_t gate_stride, float *out, ptrdiff_t out_stride,
                         int64_t cols, int64_t block_cols, int64_t from, int64_t to) {
    int64_t blocks = (cols + block_cols - 1) / block_cols;
    for (int64_t u = from; u < to; u++) {
        int64_t r = u / blocks, i = u % blocks * block_cols,
                end = i + block_cols < cols ? i + block_cols : cols;
        const float *g = gate + r * gate_stride;
        float *o = out + r * out_stride;
        for (; i + 16 <= end; i += 16) v_store(o + i, v_mul(v_silu(v_load(g + i)), v_load(o + i)));
        if (i < end) {
            int n = (int)(end - i);
            v_store_n(o + i, v_mul(v_silu(v_load_n(g + i, n)), v_load_n(o + i, n)), n);
        }
    }
}

#else

#include "matmul.h"
#define KERNEL_SOURCE "gate.c"
#include "../common/foreach_isa.h"

void headroom_matmul_gate(int isa, const float *gate, ptrdiff_t gate_stride, float *out,
                          ptrdiff_t out_stride, int64_t cols, int64_t block_cols, int64_t from,
                          int64_t to) {
    DISPATCH(isa, gate, (gate, gate_stride, out, out_stride, cols, block_cols, from, to));
}

#endif
