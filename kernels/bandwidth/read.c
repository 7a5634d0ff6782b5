// sums[r] = sum of row r, in four vectors so that additions do not wait for each other.
#ifdef ISA

static void KERNEL(read)(const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride) {
    for (int64_t r = 0; r < rows; r++, x += cols) {
        f32x16 a = v_zero(), b = v_zero(), c = v_zero(), d = v_zero();
        for (int64_t i = 0; i < cols; i += 64) {
            a = v_add(a, v_load(x + i));
            b = v_add(b, v_load(x + i + 16));
            c = v_add(c, v_load(x + i + 32));
            d = v_add(d, v_load(x + i + 48));
        }
        sums[r * stride] = v_sum(v_add(v_add(a, b), v_add(c, d)));
    }
}

#else

#define KERNEL_SOURCE "read.c"
#include "foreach_isa.h"

void headroom_read(int isa, const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride) {
    DISPATCH(isa, read, (x, rows, cols, sums, stride));
}

#endif
