// The simulated device's part of simdgroup_matrix. Apple does not document which lane holds which
// element; this is the layout that users of thread_elements() have found. Kernels that only load,
// multiply and store do not depend on it.
#pragma once

namespace metal {
template <typename T, int C, int R> struct simdgroup_matrix;

MSL_FN void msl_place_of(uint lane, __private uint &row, __private uint &col) {
    uint quad = lane / 4;
    row = (quad & 4) + ((lane / 2) & 3);
    col = (quad & 2) * 2 + (lane & 1) * 2;
}

// msl_check_uniform reports a fault unless all 32 lanes take part with the same address, stride and
// orientation.
struct msl_matrix_call {
    ulong address, stride;
    uint transposed;
};
MSL_FN void msl_check_uniform(ulong address, ulong stride, uint transposed, uint place) {
    msl_matrix_call mine;
    mine.address = address;
    mine.stride = stride;
    mine.transposed = transposed;
    __private msl_exchange *e = msl_meet((__private const void *)&mine, sizeof mine, place);
    if (e->done) return;
    e->done = 1;
    if (e->mask != ~0u) msl_fail(MSL_FAULT_MATRIX_INACTIVE, e->mask, 0);
    for (uint i = 0; i < 32; i++) {
        __private msl_matrix_call *other = (__private msl_matrix_call *)e->slot[i];
        if (((e->mask >> i) & 1) && (other->address != address || other->stride != stride ||
                                     other->transposed != transposed)) {
            msl_fail(MSL_FAULT_MATRIX_ADDRESS, i, 0);
            return;
        }
    }
}

// Inlined into the kernel, but instrumented: these functions access the kernel's memory.
#define MSL_MATRIX_FN __attribute__((always_inline)) inline

// d = a b + c. Products are summed in float32, in order of the inner index.
template <typename TD, typename TA, typename TB, typename TC>
MSL_FN void simdgroup_multiply_accumulate(
    __private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a,
    simdgroup_matrix<TB, 8, 8> b, simdgroup_matrix<TC, 8, 8> c, uint place = MSL_PLACE) {
    struct operands {
        float a0, a1, b0, b1;
    } mine;
    mine.a0 = (float)a.e.x;
    mine.a1 = (float)a.e.y;
    mine.b0 = (float)b.e.x;
    mine.b1 = (float)b.e.y;
    __private msl_exchange *e = msl_meet((__private const void *)&mine, sizeof mine, place);
    __private float *product = (__private float *)e->result;
    if (!e->done) {
        e->done = 1;
        if (e->mask != ~0u) msl_fail(MSL_FAULT_MATRIX_INACTIVE, e->mask, 0);
        float A[8][8], B[8][8];
        for (uint l = 0; l < 32; l++) {
            uint row, col;
            msl_place_of(l, row, col);
            __private operands *o = (__private operands *)e->slot[l];
            A[row][col] = o->a0;
            A[row][col + 1] = o->a1;
            B[row][col] = o->b0;
            B[row][col + 1] = o->b1;
        }
        for (int i = 0; i < 8; i++) {
            float sum[8] = {0};
            for (int k = 0; k < 8; k++)
                for (int j = 0; j < 8; j++) sum[j] += A[i][k] * B[k][j];
            for (int j = 0; j < 8; j++) product[i * 8 + j] = sum[j];
        }
    }
    uint row, col;
    msl_place_of(msl_lane(), row, col);
    d.e.x = (TD)((float)c.e.x + product[row * 8 + col]);
    d.e.y = (TD)((float)c.e.y + product[row * 8 + col + 1]);
}
} // namespace metal
