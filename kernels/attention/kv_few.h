// The blocks of kv_dot.h on AVX2. A cache line of codes is two registers. One pass processes both
// registers, so that each line of a page is read once and in order, and both use the same broadcast
// of a query or weight. Data of the next phase is prefetched one line at a time between products,
// because a burst of requests would stall them. Included by kv_dot.h.

// Prevents GCC from splitting one pointer into several and spilling them.
#define WALK(p) __asm__("" : "+r"(p))

// Prefetches one of the first eight lines of the `step` bytes at `next`: the line with index
// `slot`, a constant. Slot 7 also prefetches all further lines.
#define prefetch_line KERNEL(prefetch_line)
SIMD void prefetch_line(const char *next, int64_t step, const int slot) {
    if (64 * slot < step) __builtin_prefetch(next + 64 * slot, 0, 2);
    if (slot == 7)
        for (int64_t i = 512; i < step; i += 64) __builtin_prefetch(next + i, 0, 2);
}

// Computes v_open(v_quad(...)), with one instruction less for 4-bit codes.
#define v_codes KERNEL(v_codes)
SIMD v_operand v_codes(const int bits, const uint8_t *p, const int v, const int h) {
    if (bits != 4) return v_open(v_quad(bits, p, v, h), bits);
    const lanes_i x = l_load(p + 32 * h), low = _mm256_set1_epi16(15);
    if (v == 0)
        return (v_operand){
            _mm256_and_si256(x, low), _mm256_and_si256(_mm256_srli_epi16(x, 8), low)};
    return (v_operand){_mm256_and_si256(_mm256_srli_epi16(x, 4), low), _mm256_srli_epi16(x, 12)};
}

// Adds group g of a strip of K to the scores of R vectors: the scaled products, and the biases.
#define add_group KERNEL(add_group)
SIMD void add_group(const int R, const struct kv_format *f, const struct query_group *query,
    const uint8_t *strip, int64_t groups, int64_t g, lanes_i (*dot)[2], lanes_f (*scores)[2]) {
    const f32x16 scale = kv_scale(strip, g), bias = kv_bias(strip, g, groups, f->zero, scale);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
        const struct query_group *x = query + r * groups + g;
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            scores[r][h] = l_fma(
                l_float(dot[r][h]), l_mul(l_part(scale, h), l_set1(x->scale)), scores[r][h]);
            scores[r][h] = l_fma(l_part(bias, h), l_set1(x->sum), scores[r][h]);
        }
    }
}

// Scores of R vectors for a strip, as in kv_dot.h. It also prefetches `step` bytes at `next` per
// 32 dimensions.
#define k_block KERNEL(k_block)
SIMD void k_block(const int R, const int bits, const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *strip, float *scores, int64_t d,
    const char *next, int64_t step) {
    const int64_t groups = kv_groups(f, d);
    const uint8_t *p = strip + kv_param_bytes(f, d);
    lanes_f sum[4][2];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = l_set1(0);
    for (int64_t g = 0; g < groups; g++) {
        lanes_i dot[4][2];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) dot[r][0] = dot[r][1] = l_zero();
        for (int64_t i = f->group; i > 0; i -= 32) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                prefetch_line(next, step, j);
                const k_operand x = k_open(k_quad(bits, p, j, 0), bits),
                                y = k_open(k_quad(bits, p, j, 1), bits);
#pragma GCC unroll 4
                for (int r = 0; r < R; r++) {
                    dot[r][0] = k_dot(dot[r][0], x, codes + (r * d + 4 * j) * QUERY_BYTES);
                    dot[r][1] = k_dot(dot[r][1], y, codes + (r * d + 4 * j) * QUERY_BYTES);
                }
            }
            p += 64 * bits, codes += 32 * QUERY_BYTES, next += step;
            WALK(p);
            WALK(codes);
            WALK(next);
        }
        add_group(R, f, query, strip, groups, g, dot, sum);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
        l_storef(scores + r * TILE, sum[r][0]), l_storef(scores + r * TILE + LANES, sum[r][1]);
}

// Computes sums [R][dimensions i to i+31], as in kv_dot.h. It also prefetches `step` bytes per
// strip of `next`. Four vectors take two passes, each over one register of a line, so that they
// need only eight sums, like two vectors.
#define v_block KERNEL(v_block)
SIMD void v_block(const int R, const int bits, const struct kv_format *f, const uint8_t *weights,
    const float *steps, const uint8_t *const *strips, float *sums, int64_t ldc, int64_t d,
    int64_t i, int64_t from, int64_t to, const uint8_t *const *next, int64_t step) {
    const int64_t at = kv_param_bytes(f, d) + i * 2 * bits;
    const int halves = R <= 2 ? 2 : 1;
#pragma GCC unroll 2
    for (int part = 0; part < 2; part += halves) {
        lanes_i acc[4][2][2];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
            for (int n = 0; n < halves; n++) acc[r][n][0] = acc[r][n][1] = l_zero();
        for (int64_t t = from; t < to; t += STRIP) {
            const uint8_t *p = strips[t / STRIP] + at, *w = weights + t * WEIGHT_BYTES;
            const char *ahead = (const char *)next[t / STRIP] + i / 32 * step;
            WALK(p);
            WALK(w);
            WALK(ahead);
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++)
#pragma GCC unroll 2
                for (int n = 0; n < halves; n++) {
                    if (part == 0) prefetch_line(ahead, step, 2 * q + n);
                    if (halves == 1 && part == 0) prefetch_line(ahead, step, 2 * q + 1);
#pragma GCC unroll 2
                    for (int v = 0; v < 2; v++) {
                        const v_operand x = v_codes(bits, p + 16 * bits * q, v, part + n);
#pragma GCC unroll 4
                        for (int r = 0; r < R; r++) {
                            const uint8_t *four = w + (r * TILE + 4 * V_FOUR(q)) * WEIGHT_BYTES;
                            acc[r][n][v] = int_pair(
                                int_pair(acc[r][n][v], x.even, four), x.odd, four + 4);
                        }
                    }
                }
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
#pragma GCC unroll 2
            for (int n = 0; n < halves; n++)
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) {
                    float *c = sums + r * ldc + 16 * v + (part + n) * LANES;
                    l_storef(c, l_fma(l_float(acc[r][n][v]), l_set1(steps[r]), l_loadf(c)));
                }
    }
}

// Returns the number of vectors to process next.
#define vectors_at_once KERNEL(vectors_at_once)
SIMD int64_t vectors_at_once(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }
#define EACH_R CASE_R(1) CASE_R(2) CASE_R(4)
#define FETCH , next, r ? 0 : step // further arguments of v_block

// scores [vectors][TILE] = Q Kt for strips [from, to) of a tile. It also prefetches next_bytes
// bytes at next[strip].
#define k_scores_bits KERNEL(k_scores_bits)
SIMD void k_scores_bits(const int bits, const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *const *strips, int64_t from, int64_t to,
    float *scores, int64_t vectors, int64_t d, const char *const *next, int64_t next_bytes) {
    const int64_t groups = kv_groups(f, d), step = (next_bytes * 32 / d + 63) & ~(int64_t)63;
#define CASE_R(R) \
    case R: \
        k_block(R, bits, f, codes + r * d * QUERY_BYTES, query + r * groups, strips[s], \
            scores + r * TILE + s * STRIP, d, next[s], r ? 0 : step); \
        break;
    for (int64_t s = from; s < to; s++)
        for (int64_t r = 0, m; r < vectors; r += m)
            switch (m = vectors_at_once(vectors - r)) { EACH_R }
#undef CASE_R
}
