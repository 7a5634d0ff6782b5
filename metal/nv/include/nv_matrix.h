// simdgroup_matrix: an 8x8 matrix spread over the 32 lanes, two elements each, as NVIDIA's matrix
// instructions have them: lane l holds row l/4, columns 2(l%4) and the next. Products are in
// float32, in order of the inner index, by way of shuffles: right, and slow.
#pragma once

namespace metal {
template <typename T, int C, int R = C> struct simdgroup_matrix {
    static_assert(C == 8 && R == 8, "simdgroup_matrix is 8x8");
    vec<T, 2> e;
    simdgroup_matrix() = default;
    MSL_FN explicit simdgroup_matrix(T d) { // d on the diagonal
        const uint r = msl_lane() / 4, c = msl_lane() % 4 * 2;
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

#define MSL_MATRIX_MEMORY(SPACE)                                                                                             \
    template <typename T> MSL_FN void simdgroup_load(__private simdgroup_matrix<T, 8, 8> &m, const SPACE T *from,            \
                                                     ulong stride = 8, ulong2 o = (ulong2)(0), bool transposed = false) {    \
        const uint r = msl_lane() / 4, c = msl_lane() % 4 * 2;                                                               \
        m.e.x = transposed ? from[(c + o.y) * stride + r + o.x] : from[(r + o.y) * stride + c + o.x];                        \
        m.e.y = transposed ? from[(c + 1 + o.y) * stride + r + o.x] : from[(r + o.y) * stride + c + 1 + o.x];                \
    }                                                                                                                        \
    template <typename T> MSL_FN void simdgroup_store(simdgroup_matrix<T, 8, 8> m, SPACE T *to, ulong stride = 8,            \
                                                      ulong2 o = (ulong2)(0), bool transposed = false) {                     \
        const uint r = msl_lane() / 4, c = msl_lane() % 4 * 2;                                                               \
        to[transposed ? (c + o.y) * stride + r + o.x : (r + o.y) * stride + c + o.x] = m.e.x;                                \
        to[transposed ? (c + 1 + o.y) * stride + r + o.x : (r + o.y) * stride + c + 1 + o.x] = m.e.y;                        \
    }
MSL_MATRIX_MEMORY(device) MSL_MATRIX_MEMORY(threadgroup)

// d = a b + c
template <typename TD, typename TA, typename TB, typename TC>
MSL_FN void simdgroup_multiply_accumulate(__private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a, simdgroup_matrix<TB, 8, 8> b,
                                          simdgroup_matrix<TC, 8, 8> c) {
    const uint row = msl_lane() & ~3u, col = msl_lane() & 3u;
    float x = (float)c.e.x, y = (float)c.e.y;
    for (uint k = 0; k < 8; k++) {
        const float left = msl_from_lane((float)(k % 2 == 0 ? a.e.x : a.e.y), row + k / 2);
        x = __builtin_fmaf(left, msl_from_lane((float)b.e.x, 4 * k + col), x);
        y = __builtin_fmaf(left, msl_from_lane((float)b.e.y, 4 * k + col), y);
    }
    d.e.x = (TD)x;
    d.e.y = (TD)y;
}
template <typename TD, typename TA, typename TB>
MSL_FN void simdgroup_multiply(__private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a, simdgroup_matrix<TB, 8, 8> b) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<TD, 8, 8>((TD)0));
}
}  // namespace metal
