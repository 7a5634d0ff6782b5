// simdgroup_matrix: an 8x8 matrix spread over the 32 lanes, two elements each. Which lane holds
// which is not documented by Apple; this is the layout that users of thread_elements() have found.
// Kernels that only load, multiply and store do not depend on it.
#pragma once

namespace metal {
MSL_FN void msl_place_of(uint lane, __private uint &row, __private uint &col) {
    uint quad = lane / 4;
    row = (quad & 4) + ((lane / 2) & 3);
    col = (quad & 2) * 2 + (lane & 1) * 2;
}

template <typename T, int C, int R = C> struct simdgroup_matrix {
    static_assert(C == 8 && R == 8, "simdgroup_matrix is 8x8");
    vec<T, 2> e;
    simdgroup_matrix() = default;
    MSL_FN explicit simdgroup_matrix(T d) { // d on the diagonal
        uint r, c;
        msl_place_of(msl_lane(), r, c);
        e.x = r == c ? d : (T)0;
        e.y = r == c + 1 ? d : (T)0;
    }
    MSL_FN __private vec<T, 2> &thread_elements() __private { return e; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int C, int R> MSL_FN simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
    simdgroup_matrix<T, C, R> m;
    m.e.x = v;
    m.e.y = v;
    return m;
}

// All 32 lanes must be here, with one address, stride and orientation.
struct msl_matrix_call { ulong address, stride; uint transposed; };
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
        if (((e->mask >> i) & 1) && (other->address != address || other->stride != stride || other->transposed != transposed)) {
            msl_fail(MSL_FAULT_MATRIX_ADDRESS, i, 0);
            return;
        }
    }
}

// Inlined, but looked at by the checker: these touch the kernel's memory.
#define MSL_MATRIX_FN __attribute__((always_inline)) inline
#define MSL_MATRIX_MEMORY(SPACE)                                                                                                         \
    template <typename T> MSL_MATRIX_FN void simdgroup_load(__private simdgroup_matrix<T, 8, 8> &m, const SPACE T *from, ulong stride = 8, \
                                                            ulong2 o = (ulong2)(0), bool transposed = false, uint place = MSL_PLACE) {   \
        msl_check_uniform((ulong)from, stride, transposed, place);                                                                       \
        uint r, c;                                                                                                                       \
        msl_place_of(msl_lane(), r, c);                                                                                                  \
        if (!transposed) {                                                                                                               \
            m.e.x = from[(r + o.y) * stride + c + o.x];                                                                                  \
            m.e.y = from[(r + o.y) * stride + c + 1 + o.x];                                                                              \
        } else {                                                                                                                         \
            m.e.x = from[(c + o.y) * stride + r + o.x];                                                                                  \
            m.e.y = from[(c + 1 + o.y) * stride + r + o.x];                                                                              \
        }                                                                                                                                \
    }                                                                                                                                    \
    template <typename T> MSL_MATRIX_FN void simdgroup_store(simdgroup_matrix<T, 8, 8> m, SPACE T *to, ulong stride = 8,                 \
                                                             ulong2 o = (ulong2)(0), bool transposed = false, uint place = MSL_PLACE) {  \
        msl_check_uniform((ulong)to, stride, transposed, place);                                                                         \
        uint r, c;                                                                                                                       \
        msl_place_of(msl_lane(), r, c);                                                                                                  \
        if (!transposed) {                                                                                                               \
            to[(r + o.y) * stride + c + o.x] = m.e.x;                                                                                    \
            to[(r + o.y) * stride + c + 1 + o.x] = m.e.y;                                                                                \
        } else {                                                                                                                         \
            to[(c + o.y) * stride + r + o.x] = m.e.x;                                                                                    \
            to[(c + 1 + o.y) * stride + r + o.x] = m.e.y;                                                                                \
        }                                                                                                                                \
    }
MSL_MATRIX_MEMORY(device) MSL_MATRIX_MEMORY(threadgroup)

// d = a b + c; the products are added up in float32, in order of the inner index.
template <typename TD, typename TA, typename TB, typename TC>
MSL_FN void simdgroup_multiply_accumulate(__private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a, simdgroup_matrix<TB, 8, 8> b,
                                          simdgroup_matrix<TC, 8, 8> c, uint place = MSL_PLACE) {
    struct operands { float a0, a1, b0, b1; } mine;
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
template <typename TD, typename TA, typename TB>
MSL_FN void simdgroup_multiply(__private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a, simdgroup_matrix<TB, 8, 8> b, uint place = MSL_PLACE) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<TD, 8, 8>((TD)0), place);
}
}  // namespace metal
