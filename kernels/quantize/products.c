// Sums of outer products in float64, for products.go. Every element is computed on its own and in
// one order, so all instruction sets give the same bits, and so do all divisions of a matrix.

#ifdef ISA

// Computes tile [m, 8] of c += sign * aᵀ b, for at most 4 rows.
SIMD void KERNEL(outer_tile)(double *c, int64_t ldc, const double *a, int64_t lda,
    const double *b, int64_t ldb, int m, int64_t depth, double sign) {
    double s0[8] = {0}, s1[8] = {0}, s2[8] = {0}, s3[8] = {0};
    if (m == 4) {
        for (int64_t k = 0; k < depth; k++, a += lda, b += ldb) {
            for (int j = 0; j < 8; j++) s0[j] += a[0] * b[j];
            for (int j = 0; j < 8; j++) s1[j] += a[1] * b[j];
            for (int j = 0; j < 8; j++) s2[j] += a[2] * b[j];
            for (int j = 0; j < 8; j++) s3[j] += a[3] * b[j];
        }
        for (int j = 0; j < 8; j++) c[j] += sign * s0[j];
        for (int j = 0; j < 8; j++) c[ldc + j] += sign * s1[j];
        for (int j = 0; j < 8; j++) c[2 * ldc + j] += sign * s2[j];
        for (int j = 0; j < 8; j++) c[3 * ldc + j] += sign * s3[j];
        return;
    }
    for (int i = 0; i < m; i++) {
        double s[8] = {0};
        for (int64_t k = 0; k < depth; k++)
            for (int j = 0; j < 8; j++) s[j] += a[k * lda + i] * b[k * ldb + j];
        for (int j = 0; j < 8; j++) c[i * ldc + j] += sign * s[j];
    }
}

static void KERNEL(add_outer)(double *c, int64_t ldc, const double *a, int64_t lda,
    const double *b, int64_t ldb, int64_t m, int64_t n, int64_t depth, double sign) {
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int64_t i = 0; i < m; i += 4)
            KERNEL(outer_tile)(c + i * ldc + j, ldc, a + i, lda, b + j, ldb,
                m - i < 4 ? (int)(m - i) : 4, depth, sign);
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double s = 0;
            for (int64_t k = 0; k < depth; k++) s += a[k * lda + i] * b[k * ldb + j];
            c[i * ldc + j] += sign * s;
        }
}

#else

#define KERNEL_SOURCE "products.c"
#include "../common/foreach_isa.h"

void headroom_add_outer(int isa, double *c, int64_t ldc, const double *a, int64_t lda,
    const double *b, int64_t ldb, int64_t m, int64_t n, int64_t depth, double sign) {
    DISPATCH(isa, add_outer, (c, ldc, a, lda, b, ldb, m, n, depth, sign));
}

#endif
