// The blocks of kv_dot.h on AVX-512 and NEON, which have 32 registers. Included by kv_dot.h.

#define MAX_R 8 // vectors

// Scores of R vectors for N strips of K, group by group:
//
//     score = fma(float(dot of codes), K's scale * query's scale, score)
//     score = fma(K's bias, query's sum, score)
//
// It also prefetches `step` bytes at next[n] per strip and 32 dimensions. R, N and `bits` must be
// constants after inlining.
#define k_block KERNEL(k_block)
SIMD void k_block(const int R, const int N, const int bits, const struct kv_format *f,
    const uint8_t *codes, const struct query_group *query, const uint8_t *const *strips,
    float *scores, int64_t d, const char *const *next, int64_t step) {
    const int64_t groups = kv_groups(f, d), base = kv_param_bytes(f, d);
    for (int h = 0; h < 16 / LANES; h++) {
        lanes_f sum[MAX_R][2];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
            for (int n = 0; n < N; n++) sum[r][n] = l_set1(0);
        for (int64_t g = 0, i = 0; g < groups; g++) {
            lanes_i dot[MAX_R][2];
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 2
                for (int n = 0; n < N; n++) dot[r][n] = k_start(bits, query[r * groups + g].codes);
            for (const int64_t end = i + f->group; i < end; i += 32) {
                const uint8_t *q = codes + i * QUERY_BYTES;
                if (h == 0)
                    for (int n = 0; n < N; n++)
                        for (int64_t line = 0; line < step; line += 64)
                            __builtin_prefetch(next[n] + i / 32 * step + line, 0, 2);
#pragma GCC unroll 8
                for (int j = 0; j < 8; j++) {
                    k_operand x[2];
#pragma GCC unroll 2
                    for (int n = 0; n < N; n++)
                        x[n] = k_open(k_quad(bits, strips[n] + base + i * 2 * bits, j, h), bits);
#pragma GCC unroll 8
                    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
                        for (int n = 0; n < N; n++)
                            dot[r][n] = k_dot(dot[r][n], x[n], q + (r * d + 4 * j) * QUERY_BYTES);
                }
            }
#pragma GCC unroll 2
            for (int n = 0; n < N; n++) {
                const f32x16 s = kv_scale(strips[n], g);
                const lanes_f scale = l_part(s, h),
                              bias = l_part(kv_bias(strips[n], g, groups, f->zero, s), h);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    const struct query_group *x = query + r * groups + g;
                    sum[r][n] = l_fma(
                        l_float(dot[r][n]), l_mul(scale, l_set1(x->scale)), sum[r][n]);
                    sum[r][n] = l_fma(bias, l_set1(x->sum), sum[r][n]);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
            for (int n = 0; n < N; n++)
                l_storef(scores + r * TILE + n * STRIP + h * LANES, sum[r][n]);
    }
}

// sums [R][dimensions i to i+31] = fma(float(dot), step of the row, sums), where dot is the sum of
// codes * weights over positions [from, to) of the tile. from and to are multiples of 16, and
// strips are the four strips of the tile.
#define v_block KERNEL(v_block)
SIMD void v_block(const int R, const int bits, const struct kv_format *f, const uint8_t *weights,
    const float *steps, const uint8_t *const *strips, float *sums, int64_t ldc, int64_t d,
    int64_t i, int64_t from, int64_t to) {
    const int64_t base = kv_param_bytes(f, d) + i * 2 * bits;
#pragma GCC unroll 4
    for (int h = 0; h < 16 / LANES; h++) {
        v_sums acc[MAX_R][2];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = (v_sums){l_zero(), l_zero()};
        for (int64_t t = from; t < to; t += STRIP) {
            const uint8_t *p = strips[t / STRIP] + base;
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
                const v_operand x = v_open(v_quad(bits, p + 16 * bits * q, 0, h), bits),
                                y = v_open(v_quad(bits, p + 16 * bits * q, 1, h), bits);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    v_dot(&acc[r][0], x, weights + r * TILE * WEIGHT_BYTES, t + 4 * V_FOUR(q),
                        R <= 2);
                    v_dot(&acc[r][1], y, weights + r * TILE * WEIGHT_BYTES, t + 4 * V_FOUR(q),
                        R <= 2);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                float *c = sums + r * ldc + 16 * v + h * LANES;
                const lanes_i total =
                    v_total(acc[r][v], bits, weights + r * TILE * WEIGHT_BYTES, from, to);
                l_storef(c, l_fma(l_float(total), l_set1(steps[r]), l_loadf(c)));
            }
    }
}

// Returns the number of vectors to process next.
#define vectors_at_once KERNEL(vectors_at_once)
SIMD int64_t vectors_at_once(int64_t left) {
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}
#define EACH_R CASE_R(1) CASE_R(2) CASE_R(4) CASE_R(8)
#define FETCH // v_block has no further arguments

// scores [vectors][TILE] = Q Kt for strips [from, to) of a tile, up to two strips and four vectors
// at a time. It also prefetches next_bytes bytes at next[strip].
#define k_scores_bits KERNEL(k_scores_bits)
SIMD void k_scores_bits(const int bits, const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *const *strips, int64_t from, int64_t to,
    float *scores, int64_t vectors, int64_t d, const char *const *next, int64_t next_bytes) {
    const int64_t groups = kv_groups(f, d), step = (next_bytes * 32 / d + 63) & ~(int64_t)63;
#define CASE_R(R, N) \
    case R * 4 + N: \
        k_block(R, N, bits, f, codes + r * d * QUERY_BYTES, query + r * groups, strips + s, \
            scores + r * TILE + s * STRIP, d, next + s, r ? 0 : step); \
        break;
    for (int64_t s = from, n; s < to; s += n) {
        n = to - s >= 2 ? 2 : 1;
        for (int64_t r = 0, m; r < vectors; r += m) {
            m = vectors - r >= 4 ? 4 : vectors - r >= 2 ? 2 : 1;
            switch (m * 4 + n) {
                CASE_R(1, 1) CASE_R(2, 1) CASE_R(4, 1) CASE_R(1, 2) CASE_R(2, 2) CASE_R(4, 2)
            }
        }
    }
#undef CASE_R
}
