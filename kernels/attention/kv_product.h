// The products of attention, C += A B with B in the pages of a cache or in a tile: of plain elements, and straight from quantized
// pages. Included once per instruction set, after kv_format.h. Each element of C is one chain of fused multiply-adds in the order of
// the inner index, however rows and columns are blocked for registers.

// C[R][16N] = A[R][0, k) B[0, k)[16N], plus what C held if add. R, N and dtype, the format of B, are constants where it is
// inlined. Meanwhile it fetches k * step bytes from next on; any address does.
#define product_block KERNEL(product_block)
SIMD void product_block(const int R, const int N, const int dtype, const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
                        int64_t k, int add, const char *next, int64_t step) {
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

// Six rows and four vectors fill the 32 registers of AVX-512; the others take one f32x16 (two or four registers) at a time.
#if ISA == ISA_AVX512
#define MAX_N 4
#else
#define MAX_N 1
#endif

// C[rows][cols] = A[rows][0, k) B[0, k)[cols], plus what C held if add; cols is a multiple of 16, B has the format dtype and
// rows ldb elements apart. next: as many bytes as B has are fetched from there on.
#define product_as KERNEL(product_as)
SIMD void product_as(const int dtype, const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc, int64_t rows, int64_t cols,
                     int64_t k, int add, const char *next) {
    const int64_t bytes = kv_element_bytes(dtype);
#define BLOCK(R, N) \
    case R * 8 + N: \
        product_block(R, N, dtype, a + r * lda, lda, (const char *)b + i * bytes, ldb, c + r * ldc + i, ldc, k, add, next, r ? 0 : 16 * N * bytes); \
        break;
#define BLOCKS(N) BLOCK(1, N) BLOCK(2, N) BLOCK(3, N) BLOCK(4, N) BLOCK(5, N) BLOCK(6, N)
    for (int64_t i = 0, n; i < cols; i += 16 * n) {
        const int eight = MAX_N == 4 && rows == 8 && cols - i >= 32; // a group of eight at once converts every element once
        n = eight ? 2 : cols - i >= 64 ? 4 : cols - i >= 32 ? 2 : 1;
        if (n > MAX_N) n = MAX_N;
        for (int64_t r = 0, m; r < rows; r += m) {
            int64_t left = rows - r;
            m = eight ? 8 : left % 4 == 0 && left < 12 ? 4 : left < 6 ? left : 6;
            switch (m * 8 + n) {
#if MAX_N == 4
            BLOCKS(4)
            BLOCKS(2)
            BLOCK(8, 2)
#endif
            BLOCKS(1)
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
    static void name(const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc, int64_t rows, int64_t cols, int64_t k, int add, \
                     const char *next) { \
        product_as(dtype, a, lda, b, ldb, c, ldc, rows, cols, k, add, next); \
    }
PRODUCT(product_f32, KV_F32)
PRODUCT(product_f16, KV_F16)
PRODUCT(product_bf16, KV_BF16)
#undef PRODUCT
#undef MAX_N

#define product KERNEL(product)
SIMD void product(int dtype, const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc, int64_t rows, int64_t cols, int64_t k,
                  int add, const char *next) {
    switch (dtype) {
    case KV_F16: product_f16(a, lda, b, ldb, c, ldc, rows, cols, k, add, next); break;
    case KV_BF16: product_bf16(a, lda, b, ldb, c, ldc, rows, cols, k, add, next); break;
    default: product_f32(a, lda, b, ldb, c, ldc, rows, cols, k, add, next);
    }
}

// The same products straight from quantized pages: C[R][16N] += A B for bundles of B (kv_format.h), N vectors of C at a time.
// Constants as above; next is asked for in steps spread over the whole product.

// N strips of K from strip on; scores of R vectors for their 16N positions.
#define k_block KERNEL(k_block)
SIMD void k_block(const int R, const int N, const int bits, const struct kv_format *f, const float *a, const uint8_t *strip, int64_t strip_bytes,
                  float *c, int64_t d, const char *next, int64_t step) {
    const int64_t groups = kv_groups(f, d);
    const uint8_t *p = strip + kv_param_bytes(f, d);
    f32x16 sum[8][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int n = 0; n < N; n++) sum[r][n] = v_zero();
    for (int64_t g = 0; g < groups; g++) {
        f32x16 s[2], b[2];
#pragma GCC unroll 2
        for (int n = 0; n < N; n++) {
            s[n] = kv_scale(strip + n * strip_bytes, g);
            b[n] = kv_bias(strip + n * strip_bytes, g, groups, f->zero, s[n]);
        }
        for (int64_t i = 0; i < f->group; i += 8, p += STRIP * bits, a += 8) {
            for (int64_t line = 0; line < 8 * step; line += 64) __builtin_prefetch(next + line, 0, 2);
            next += 8 * step;
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                f32x16 row[2];
#pragma GCC unroll 2
                for (int n = 0; n < N; n++) row[n] = v_fma(i_float(k_codes(bits, p + n * strip_bytes, j)), s[n], b[n]);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    f32x16 x = v_set1(a[r * d + j]);
#pragma GCC unroll 2
                    for (int n = 0; n < N; n++) sum[r][n] = v_fma(x, row[n], sum[r][n]);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int n = 0; n < N; n++) v_store(c + r * TILE + 16 * n, sum[r][n]);
}

// Positions [from, to) of the strips from strip on, dimensions [i, i+16N); weights a are those of position from on.
#define v_block KERNEL(v_block)
SIMD void v_block(const int R, const int N, const int bits, const struct kv_format *f, const float *a, const uint8_t *strip, int64_t strip_bytes,
                  float *c, int64_t ldc, int64_t d, int64_t i, int64_t from, int64_t to, const char *next, int64_t step) {
    const int64_t groups = kv_groups(f, d), row_codes = d * bits / 8;
    f32x16 sum[8][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] = v_load(c + r * ldc + 16 * n);
    for (int64_t at = from; at < to;) {
        const uint8_t *s = strip + at / STRIP * strip_bytes, *p = s + kv_param_bytes(f, d) + at % STRIP * row_codes + i * bits / 8;
        float scales[2][16], biases[2][16];
#pragma GCC unroll 2
        for (int n = 0; n < N / 2; n++) {
            f32x16 scale = kv_scale(s, (i + 32 * n) / f->group);
            v_store(scales[n], scale);
            v_store(biases[n], kv_bias(s, (i + 32 * n) / f->group, groups, f->zero, scale));
        }
        int64_t end = (at / STRIP + 1) * STRIP;
        if (end > to) end = to;
        for (; at < end; at++, p += row_codes, next += step, a++) {
            f32x16 row[4];
            __builtin_prefetch(next, 0, 2);
            if (step > 64) __builtin_prefetch(next + 64, 0, 2);
#pragma GCC unroll 2
            for (int n = 0; n < N / 2; n++) {
                f32x16 scale = v_set1(scales[n][at % STRIP]), bias = v_set1(biases[n][at % STRIP]);
#if ISA == ISA_AVX512
                if (bits == 4) { // all sixteen values by one multiply-add, then picked by the low four bits of a lane
                    const __m512 values = v_fma(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), scale, bias);
                    const __m512i x = i_load_u8(p + 16 * n);
                    row[2 * n] = _mm512_permutexvar_ps(x, values);
                    row[2 * n + 1] = _mm512_permutexvar_ps(_mm512_srli_epi32(x, 4), values);
                    continue;
                }
#endif
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) row[2 * n + v] = v_fma(i_float(v_codes(bits, p + 4 * bits * n, v)), scale, bias);
            }
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                f32x16 x = v_set1(a[r * TILE]);
#pragma GCC unroll 4
                for (int n = 0; n < N; n++) sum[r][n] = v_fma(x, row[n], sum[r][n]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) v_store(c + r * ldc + 16 * n, sum[r][n]);
}

// How many of the rows left go next: what the registers hold, in even parts.
#define rows_at_once KERNEL(rows_at_once)
#if ISA == ISA_AVX512
SIMD int64_t rows_at_once(int64_t left, int n) { return n == 2 && left == 8 ? 8 : left % 4 == 0 && left < 12 ? 4 : left < 6 ? left : 6; }
#define EACH_R(n) CASE_R(1, n) CASE_R(2, n) CASE_R(3, n) CASE_R(4, n) CASE_R(5, n) CASE_R(6, n)
#else
SIMD int64_t rows_at_once(int64_t left, int n) { return (void)n, left == 4 ? 2 : left < 3 ? left : 3; }
#define EACH_R(n) CASE_R(1, n) CASE_R(2, n) CASE_R(3, n)
#endif

// scores [rows][16 strips] = queries [rows][d] Kt. next_bytes from next on are fetched meanwhile.
#define k_product_bits KERNEL(k_product_bits)
SIMD void k_product_bits(const int bits, const struct kv_format *f, const float *queries, const uint8_t *strip, int64_t strips, float *scores,
                         int64_t rows, int64_t d, const char *next, int64_t next_bytes) {
    const int64_t strip_bytes = STRIP * kv_row_bytes(f, d), step = next_bytes / strips / d;
#define CASE_R(R, N) \
    case R * 4 + N: k_block(R, N, bits, f, queries + r * d, strip, strip_bytes, scores + r * TILE, d, next, r ? 0 : N * step); break;
    for (int64_t n; strips > 0; strips -= n, strip += n * strip_bytes, scores += 16 * n, next += n * d * step) {
        n = strips >= 2 ? 2 : 1;
        for (int64_t r = 0, m; r < rows; r += m) {
            m = rows_at_once(rows - r, (int)n);
            switch (m * 4 + n) {
            EACH_R(2)
            EACH_R(1)
#if ISA == ISA_AVX512
            CASE_R(8, 2)
#endif
            }
        }
    }
#undef CASE_R
}

// sums [rows][d] += weights V of positions [from, to), counted from strip's first.
#define v_product_bits KERNEL(v_product_bits)
SIMD void v_product_bits(const int bits, const struct kv_format *f, const float *weights, const uint8_t *strip, int64_t from, int64_t to, float *sums,
                         int64_t ldc, int64_t rows, int64_t d, const char *next, int64_t next_bytes) {
    const int64_t strip_bytes = STRIP * kv_row_bytes(f, d);
#define CASE_R(R, N) \
    case R * 8 + N: v_block(R, N, bits, f, weights + r * TILE, strip, strip_bytes, sums + r * ldc + i, ldc, d, i, from, to, next, r ? 0 : step); break;
    for (int64_t i = 0, n; i < d; i += 16 * n) {
        n = ISA == ISA_AVX512 && rows != 8 && d - i >= 64 ? 4 : 2;
        const int64_t step = next_bytes * 16 * n / d / (to - from);
        for (int64_t r = 0, m; r < rows; r += m) {
            m = rows_at_once(rows - r, (int)n);
            switch (m * 8 + n) {
            EACH_R(2)
#if ISA == ISA_AVX512
            EACH_R(4)
            CASE_R(8, 2)
#endif
            }
        }
        next += step * (to - from);
    }
#undef CASE_R
}
#undef EACH_R

#define k_product_4 KERNEL(k_product_4)
#define k_product_8 KERNEL(k_product_8)
#define v_product_4 KERNEL(v_product_4)
#define v_product_8 KERNEL(v_product_8)
#define PRODUCTS(bits) \
    static void k_product_##bits(const struct kv_format *f, const float *queries, const uint8_t *strip, int64_t strips, float *scores, int64_t rows, \
                                 int64_t d, const char *next, int64_t next_bytes) { \
        k_product_bits(bits, f, queries, strip, strips, scores, rows, d, next, next_bytes); \
    } \
    static void v_product_##bits(const struct kv_format *f, const float *weights, const uint8_t *strip, int64_t from, int64_t to, float *sums, \
                                 int64_t ldc, int64_t rows, int64_t d, const char *next, int64_t next_bytes) { \
        v_product_bits(bits, f, weights, strip, from, to, sums, ldc, rows, d, next, next_bytes); \
    }
PRODUCTS(4)
PRODUCTS(8)
#undef PRODUCTS

// Formats that products read from the pages.
#define has_product KERNEL(has_product)
SIMD int has_product(const struct kv_format *f) { return f->bits == 0 || f->bits == 4 || f->bits == 8; }
