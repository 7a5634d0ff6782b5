// simdgroup_matrix: an 8x8 matrix spread over the 32 lanes of a simdgroup, two elements each. A
// header of the device, included before this one, defines:
//
//   msl_place_of       row and column of a lane's first element; the second is in the next column
//   msl_check_uniform  checks that all lanes agree on a load or store
//   MSL_MATRIX_FN      attributes of loads and stores
//   simdgroup_multiply_accumulate
#pragma once

namespace metal {
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

template <typename T, int C, int R>
MSL_FN simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
    simdgroup_matrix<T, C, R> m;
    m.e.x = v;
    m.e.y = v;
    return m;
}

#define MSL_MATRIX_MEMORY(SPACE)                                                            \
    template <typename T>                                                                   \
    MSL_MATRIX_FN void simdgroup_load(                                                      \
        __private simdgroup_matrix<T, 8, 8> &m, const SPACE T *from, ulong stride = 8,      \
        ulong2 o = (ulong2)(0), bool transposed = false, uint place = MSL_PLACE) {          \
        msl_check_uniform((ulong)from, stride, transposed, place);                          \
        uint r, c;                                                                          \
        msl_place_of(msl_lane(), r, c);                                                     \
        if (!transposed) {                                                                  \
            m.e.x = from[(r + o.y) * stride + c + o.x];                                     \
            m.e.y = from[(r + o.y) * stride + c + 1 + o.x];                                 \
        } else {                                                                            \
            m.e.x = from[(c + o.y) * stride + r + o.x];                                     \
            m.e.y = from[(c + 1 + o.y) * stride + r + o.x];                                 \
        }                                                                                   \
    }                                                                                       \
    template <typename T>                                                                   \
    MSL_MATRIX_FN void simdgroup_store(                                                     \
        simdgroup_matrix<T, 8, 8> m, SPACE T *to, ulong stride = 8, ulong2 o = (ulong2)(0), \
        bool transposed = false, uint place = MSL_PLACE) {                                  \
        msl_check_uniform((ulong)to, stride, transposed, place);                            \
        uint r, c;                                                                          \
        msl_place_of(msl_lane(), r, c);                                                     \
        if (!transposed) {                                                                  \
            to[(r + o.y) * stride + c + o.x] = m.e.x;                                       \
            to[(r + o.y) * stride + c + 1 + o.x] = m.e.y;                                   \
        } else {                                                                            \
            to[(c + o.y) * stride + r + o.x] = m.e.x;                                       \
            to[(c + 1 + o.y) * stride + r + o.x] = m.e.y;                                   \
        }                                                                                   \
    }
MSL_MATRIX_MEMORY(device)
MSL_MATRIX_MEMORY(threadgroup)

template <typename TD, typename TA, typename TB>
MSL_FN void simdgroup_multiply(
    __private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a,
    simdgroup_matrix<TB, 8, 8> b, uint place = MSL_PLACE) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<TD, 8, 8>((TD)0), place);
}
} // namespace metal
