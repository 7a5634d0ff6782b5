// sums[r] = sum of row r, in four vectors so that additions do not wait for each other. Each adds up a quarter of the row: a processor
// fetches several streams ahead at once, within a page of each, and more with them than with one. Each asks FETCH floats ahead too, at its end
// for where it goes on in the next row.
#ifdef ISA

#undef FETCH
#define FETCH 512

static void KERNEL(read)(const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride) {
    const int64_t n = cols / 4;
    for (int64_t r = 0; r < rows; r++, x += cols) {
        f32x16 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (int64_t i = 0; i < n; i += 16) {
            const float *at = x + i, *ahead = at + (i + FETCH < n ? FETCH : FETCH + 3 * n);
#pragma GCC unroll 4
            for (int s = 0; s < 4; s++) {
                __builtin_prefetch(ahead + s * n);
                sum[s] = v_add(sum[s], v_load(at + s * n));
            }
        }
        sums[r * stride] = v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    }
}

#else

#define KERNEL_SOURCE "read.c"
#include "foreach_isa.h"

void headroom_read(int isa, const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride) {
    DISPATCH(isa, read, (x, rows, cols, sums, stride));
}

#endif
