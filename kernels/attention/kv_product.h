// The products of attention in float32: C += A B, with B in plain pages of a cache or in a tile.
// Each element of C is one chain of fused multiply-adds in the order of the inner index, for every
// blocking of rows and columns. Included once per instruction set, after kv_format.h.

// C[R][16N] = A[R][0, k) B[0, k)[16N], plus the old C if `add`. R, N and dtype, the format of B,
// must be constants after inlining. It also prefetches k * step bytes at `next`, which may be any
// address.
#define product_block KERNEL(product_block)
SIMD void product_block(const int R, const int N, const int dtype, const float *a, int64_t lda,
    const void *b, int64_t ldb, float *c, int64_t ldc, int64_t k, int add, const char *next,
    int64_t step) {
    f32x16 sum[8][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] = add ? v_load(c + r * ldc + 16 * n) : v_zero();
    for (int64_t i = 0; i < k; i++, next += step) {
        f32x16 row[4];
        __builtin_prefetch(next, 0, 2);
        if (N == 4) __builtin_prefetch(next + 64, 0, 2);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) row[n] = kv_load(dtype, b, i * ldb + 16 * n);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            f32x16 x = v_set1(a[r * lda + i]);
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) sum[r][n] = v_fma(x, row[n], sum[r][n]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) v_store(c + r * ldc + 16 * n, sum[r][n]);
}

// C[rows][cols] = A[rows][0, k) B[0, k)[cols], plus the old C if `add`. cols is a multiple of 16. B
// has the format dtype, and its rows are ldb elements apart. It also prefetches as many bytes at
// `next` as B has.
#define product_as KERNEL(product_as)
SIMD void product_as(const int dtype, const float *a, int64_t lda, const void *b, int64_t ldb,
    float *c, int64_t ldc, int64_t rows, int64_t cols, int64_t k, int add, const char *next) {
    const int64_t bytes = kv_element_bytes(dtype);
#define BLOCK(R, N) \
    case R * 8 + N: \
        product_block(R, N, dtype, a + r * lda, lda, (const char *)b + i * bytes, ldb, \
            c + r * ldc + i, ldc, k, add, next, r ? 0 : 16 * N * bytes); \
        break;
#define BLOCKS(N) BLOCK(1, N) BLOCK(2, N) BLOCK(3, N) BLOCK(4, N) BLOCK(5, N) BLOCK(6, N)
    for (int64_t i = 0, n; i < cols; i += 16 * n) {
        // Eight rows at once convert every element of B only once.
        const int eight = LANES == 16 && rows == 8 && cols - i >= 32;
        n = eight ? 2 : cols - i >= 64 ? 4 : cols - i >= 32 ? 2 : 1;
        if (n > MAX_N(rows)) n = MAX_N(rows);
        for (int64_t r = 0, m; r < rows; r += m) {
            int64_t left = rows - r;
            m = eight ? 8 : left % 4 == 0 && left < 12 ? 4 : left < 6 ? left : 6;
            switch (m * 8 + n) {
                EACH_BLOCK
            }
        }
        next += 16 * n * bytes * k;
    }
#undef BLOCKS
#undef BLOCK
}

#define product_f32 KERNEL(product_f32)
#define product_f16 KERNEL(product_f16)
#define product_bf16 KERNEL(product_bf16)
#define PRODUCT(name, dtype) \
    static void name(const float *a, int64_t lda, const void *b, int64_t ldb, float *c, \
        int64_t ldc, int64_t rows, int64_t cols, int64_t k, int add, const char *next) { \
        product_as(dtype, a, lda, b, ldb, c, ldc, rows, cols, k, add, next); \
    }
PRODUCT(product_f32, KV_F32)
PRODUCT(product_f16, KV_F16)
PRODUCT(product_bf16, KV_BF16)
#undef PRODUCT

#define product KERNEL(product)
SIMD void product(int dtype, const float *a, int64_t lda, const void *b, int64_t ldb, float *c,
    int64_t ldc, int64_t rows, int64_t cols, int64_t k, int add, const char *next) {
    switch (dtype) {
    case KV_F16: product_f16(a, lda, b, ldb, c, ldc, rows, cols, k, add, next); break;
    case KV_BF16: product_bf16(a, lda, b, ldb, c, ldc, rows, cols, k, add, next); break;
    default: product_f32(a, lda, b, ldb, c, ldc, rows, cols, k, add, next);
    }
}
