// sums[r] = sum of row r. Processors differ in their hardware prefetchers and in the benefit of
// software prefetches. So there are several patterns, and the caller uses the fastest
// (patterns.go). A row is cut into streams that are read in parallel, a few lines of each in turn.
// At the end of its part of a row, a stream prefetches its part of the next row. Four sums keep
// additions from waiting for each other.
#ifdef ISA

#undef LINE
#define LINE 16 // floats in a cache line, and in an f32x16

#define read_lines KERNEL(read_lines)
SIMD void read_lines(const float *at, const float *ahead, f32x16 *sum, const int first,
                     const int lines, const int prefetches) {
#pragma GCC unroll 8
    for (int l = 0; l < lines; l++) {
        if (prefetches) __builtin_prefetch(ahead + l * LINE);
        sum[(first + l) % 4] = v_add(sum[(first + l) % 4], v_load(at + l * LINE));
    }
}

#define read_rows KERNEL(read_rows)
SIMD void read_rows(const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride,
                    int64_t ahead, const int streams, const int lines, const int prefetches) {
    const int64_t n = cols / streams, blocks = n / (lines * LINE) * (lines * LINE);
    for (int64_t r = 0; r < rows; r++, x += cols) {
        f32x16 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (int64_t i = 0; i < blocks; i += lines * LINE) {
            const int64_t next = ahead + (i + ahead < n ? 0 : cols - n);
#pragma GCC unroll 4
            for (int s = 0; s < streams; s++) {
                const float *at = x + s * n + i;
                read_lines(at, at + next, sum, s * lines, lines, prefetches);
            }
        }
        for (int64_t i = blocks; i < n; i += LINE) // the rest, shorter than a block
            for (int s = 0; s < streams; s++) read_lines(x + s * n + i, x, sum, 0, 1, 0);
        sums[r * stride] = v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    }
}

static void KERNEL(read)(const float *x, int64_t rows, int64_t cols, float *sums,
                         ptrdiff_t stride, int streams, int lines, int64_t ahead) {
#define PATTERN(s, l) \
    if (streams == s && lines == l && ahead) \
        read_rows(x, rows, cols, sums, stride, ahead, s, l, 1); \
    if (streams == s && lines == l && !ahead) \
        read_rows(x, rows, cols, sums, stride, 0, s, l, 0);
    PATTERN(1, 8) PATTERN(2, 8) PATTERN(4, 1) PATTERN(4, 8)
#undef PATTERN
}

#undef read_lines
#undef read_rows

#else

#define KERNEL_SOURCE "read.c"
#include "../common/foreach_isa.h"

// streams and lines are one of the pairs above; prefetch is in bytes, and 0 prefetches nothing.
void headroom_read(int isa, const float *x, int64_t rows, int64_t cols, float *sums,
                   ptrdiff_t stride, int streams, int lines, int64_t prefetch) {
    const int64_t ahead = prefetch / (int64_t)sizeof *x;
    DISPATCH(isa, read, (x, rows, cols, sums, stride, streams, lines, ahead));
}

#endif
