// sums[r] = sum of row r. What a processor fetches by itself, and what asking ahead does for it,
// differs by its maker, so there are several ways of reading, and who measures finds the fastest: a
// row goes as several streams side by side, each a part of it, so many lines of a stream at a time,
// and each may ask for what lies so many bytes ahead, at its end for where it goes on in the next
// row. Four sums, so that additions do not wait for each other.
#ifdef ISA

#undef LINE
#define LINE 16 // floats: a line of the cache, f32x16

#define read_lines KERNEL(read_lines)
SIMD void read_lines(const float *at, const float *ahead, f32x16 *sum, const int first, const int lines, const int asks) {
#pragma GCC unroll 8
    for (int l = 0; l < lines; l++) {
        if (asks) __builtin_prefetch(ahead + l * LINE);
        sum[(first + l) % 4] = v_add(sum[(first + l) % 4], v_load(at + l * LINE));
    }
}

#define read_rows KERNEL(read_rows)
SIMD void read_rows(const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride, int64_t ahead, const int streams, const int lines, const int asks) {
    const int64_t n = cols / streams, blocks = n / (lines * LINE) * (lines * LINE);
    for (int64_t r = 0; r < rows; r++, x += cols) {
        f32x16 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (int64_t i = 0; i < blocks; i += lines * LINE) {
            const int64_t next = ahead + (i + ahead < n ? 0 : cols - n);
#pragma GCC unroll 4
            for (int s = 0; s < streams; s++) read_lines(x + s * n + i, x + s * n + i + next, sum, s * lines, lines, asks);
        }
        for (int64_t i = blocks; i < n; i += LINE) // what is no whole block
            for (int s = 0; s < streams; s++) read_lines(x + s * n + i, x, sum, 0, 1, 0);
        sums[r * stride] = v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    }
}

static void KERNEL(read)(const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride, int streams, int lines, int64_t ahead) {
#define WAY(s, l) \
    if (streams == s && lines == l && ahead) read_rows(x, rows, cols, sums, stride, ahead, s, l, 1); \
    if (streams == s && lines == l && !ahead) read_rows(x, rows, cols, sums, stride, 0, s, l, 0);
    WAY(1, 8) WAY(2, 8) WAY(4, 1) WAY(4, 8)
#undef WAY
}

#undef read_lines
#undef read_rows

#else

#define KERNEL_SOURCE "read.c"
#include "foreach_isa.h"

// streams, lines: one of the pairs above; ahead: bytes, 0 asks for nothing.
void headroom_read(int isa, const float *x, int64_t rows, int64_t cols, float *sums, ptrdiff_t stride, int streams, int lines, int64_t ahead) {
    DISPATCH(isa, read, (x, rows, cols, sums, stride, streams, lines, ahead / (int64_t)sizeof *x));
}

#endif
