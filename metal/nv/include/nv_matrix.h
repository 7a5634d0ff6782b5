// The NVIDIA device's part of simdgroup_matrix. A lane holds the elements that NVIDIA's matrix
// instructions give it: row lane/4, columns 2(lane%4) and the next. Multiplication uses shuffles
// instead of those instructions: correct, and slow.
#pragma once

namespace metal {
template <typename T, int C, int R> struct simdgroup_matrix;

MSL_FN void msl_place_of(uint lane, __private uint &row, __private uint &col) {
    row = lane / 4;
    col = lane % 4 * 2;
}
MSL_FN void msl_check_uniform(ulong, ulong, uint, uint) {}
#define MSL_MATRIX_FN MSL_FN

// d = a b + c. Products are summed in float32, in order of the inner index.
template <typename TD, typename TA, typename TB, typename TC>
MSL_FN void simdgroup_multiply_accumulate(
    __private simdgroup_matrix<TD, 8, 8> &d, simdgroup_matrix<TA, 8, 8> a,
    simdgroup_matrix<TB, 8, 8> b, simdgroup_matrix<TC, 8, 8> c, uint = MSL_PLACE) {
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
} // namespace metal
