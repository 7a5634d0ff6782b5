// The products of attention in integers, directly from quantized pages: scores of rounded queries
// with codes of K, and sums of codes of V with rounded weights (kv_round.h). Sums of integers are
// exact, so an element has the same bits for every blocking and on every instruction set. Products
// are added to float32 sums once per group of K, in order, and once per tile of V. Included once
// per instruction set, after kv_format.h.

#define quad_operand KERNEL(quad_operand)
#define quad_open KERNEL(quad_open)
#define int_pair KERNEL(int_pair)
#define k_operand KERNEL(k_operand)
#define k_open KERNEL(k_open)
#define k_start KERNEL(k_start)
#define k_dot KERNEL(k_dot)
#define v_operand KERNEL(v_operand)
#define v_open KERNEL(v_open)
#define v_sums KERNEL(v_sums)
#define v_dot KERNEL(v_dot)
#define v_total KERNEL(v_total)

#if ISA == ISA_NEON

// The products are signed, so codes of eight bits become code-128. Sums start with the difference.
typedef int8x16_t k_operand;
SIMD k_operand k_open(lanes_i x, const int bits) {
    uint8x16_t b = vreinterpretq_u8_u32(x);
    return vreinterpretq_s8_u8(bits == 8 ? veorq_u8(b, vdupq_n_u8(128)) : b);
}
SIMD lanes_i k_start(const int bits, int32_t sum) {
    return vdupq_n_u32(bits == 8 ? (uint32_t)(128 * sum) : 0);
}
SIMD lanes_i k_dot(lanes_i acc, k_operand k, const uint8_t *q) {
    int32_t four;
    memcpy(&four, q, 4);
    return vreinterpretq_u32_s32(
        vdotq_s32(vreinterpretq_s32_u32(acc), k, vreinterpretq_s8_s32(vdupq_n_s32(four))));
}

typedef k_operand v_operand;
SIMD v_operand v_open(lanes_i x, const int bits) { return k_open(x, bits); }
typedef struct { lanes_i high, low; } v_sums;
SIMD void v_dot(v_sums *s, v_operand v, const uint8_t *weights, int64_t at, const int apart) {
    (void)apart;
    s->high = k_dot(s->high, v, weights + at);
    s->low = k_dot(s->low, v, weights + TILE + at);
}
SIMD lanes_i v_total(v_sums s) { return vaddq_u32(vshlq_n_u32(s.high, 8), s.low); }

#else

// Adds to acc the products of the 16-bit lanes of x with the two numbers at p, each pair of
// neighbours added.
SIMD lanes_i int_pair(lanes_i acc, lanes_i x, const uint8_t *p) {
    int32_t two;
    memcpy(&two, p, 4);
#if ISA == ISA_VNNI
    return _mm512_dpwssd_epi32(acc, x, _mm512_set1_epi32(two));
#else
    acc = MM(add_epi32)(acc, MM(madd_epi16)(x, MM(set1_epi32)(two)));
    __asm__("" : "+v"(acc)); // otherwise GCC builds trees of sums and runs out of registers
    return acc;
#endif
}

typedef struct { lanes_i even, odd; } quad_operand;
SIMD quad_operand quad_open(lanes_i x) {
    return (quad_operand){MMI(and)(x, MM(set1_epi16)(255)), MM(srli_epi16)(x, 8)};
}

SIMD lanes_i k_start(const int bits, int32_t sum) { return (void)bits, (void)sum, l_zero(); }
#if ISA == ISA_VNNI
typedef lanes_i k_operand;
SIMD k_operand k_open(lanes_i x, const int bits) { return (void)bits, x; }
SIMD lanes_i k_dot(lanes_i acc, k_operand k, const uint8_t *q) {
    int32_t four;
    memcpy(&four, q, 4);
    return _mm512_dpbusd_epi32(acc, k, _mm512_set1_epi32(four));
}
#else
typedef quad_operand k_operand;
SIMD k_operand k_open(lanes_i x, const int bits) { return (void)bits, quad_open(x); }
SIMD lanes_i k_dot(lanes_i acc, k_operand k, const uint8_t *q) {
    return int_pair(int_pair(acc, k.even, q), k.odd, q + 4);
}
#endif

typedef quad_operand v_operand;
SIMD v_operand v_open(lanes_i x, const int bits) { return (void)bits, quad_open(x); }
typedef struct { lanes_i a, b; } v_sums; // two chains of sums if apart, for less latency
SIMD void v_dot(v_sums *s, v_operand v, const uint8_t *weights, int64_t at, const int apart) {
    s->a = int_pair(s->a, v.even, weights + WEIGHT_BYTES * at);
    if (apart)
        s->b = int_pair(s->b, v.odd, weights + WEIGHT_BYTES * at + 4);
    else
        s->a = int_pair(s->a, v.odd, weights + WEIGHT_BYTES * at + 4);
}
SIMD lanes_i v_total(v_sums s) { return MM(add_epi32)(s.a, s.b); }

#endif

#if ISA == ISA_AVX2
#include "kv_few.h" // k_block and v_block
#else
#define MAX_R 8 // vectors

// Scores of R vectors for N strips of K, group by group:
//
//     score = fma(float(dot of codes), K's scale * query's scale, score)
//     score = fma(K's bias, query's sum, score)
//
// It also prefetches step bytes at next[n] per strip and 32 dimensions. R, N and bits must be
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
                lanes_i total = v_total(acc[r][v]);
#if ISA == ISA_NEON
                if (bits == 8)
                    total = vaddq_u32(total,
                        vdupq_n_u32(
                            (uint32_t)weights_sum(weights + r * TILE * WEIGHT_BYTES, from, to) *
                            128));
#endif
                l_storef(c, l_fma(l_float(total), l_set1(steps[r]), l_loadf(c)));
            }
    }
}
#endif

// Returns the number of vectors to process next.
#define vectors_at_once KERNEL(vectors_at_once)
#if ISA == ISA_AVX2
SIMD int64_t vectors_at_once(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }
#define EACH_R CASE_R(1) CASE_R(2) CASE_R(4)
#else
SIMD int64_t vectors_at_once(int64_t left) {
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}
#define EACH_R CASE_R(1) CASE_R(2) CASE_R(4) CASE_R(8)
#endif

// scores [vectors][TILE] = Q Kt for strips [from, to) of a tile, two strips at a time if there are
// enough registers. It also prefetches next_bytes bytes at next[strip].
#define k_scores_bits KERNEL(k_scores_bits)
SIMD void k_scores_bits(const int bits, const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *const *strips, int64_t from, int64_t to,
    float *scores, int64_t vectors, int64_t d, const char *const *next, int64_t next_bytes) {
    const int64_t groups = kv_groups(f, d), step = (next_bytes * 32 / d + 63) & ~(int64_t)63;
#if ISA == ISA_AVX2
#define CASE_R(R) \
    case R: \
        k_block(R, bits, f, codes + r * d * QUERY_BYTES, query + r * groups, strips[s], \
            scores + r * TILE + s * STRIP, d, next[s], r ? 0 : step); \
        break;
    for (int64_t s = from; s < to; s++)
        for (int64_t r = 0, m; r < vectors; r += m)
            switch (m = vectors_at_once(vectors - r)) { EACH_R }
#else
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
#endif
#undef CASE_R
}

// Adds weights V to sums [vectors][dimensions] for the dimensions of groups groups, which start at
// dimension i. weights are [groups][vectors][TILE], steps [groups][vectors]. On AVX2 it also
// prefetches step bytes per strip and 32 dimensions of next.
#define v_values_bits KERNEL(v_values_bits)
SIMD void v_values_bits(const int bits, const struct kv_format *f, const uint8_t *weights,
    const float *steps, const uint8_t *const *strips, float *sums, int64_t ldc, int64_t vectors,
    int64_t d, int64_t i, int64_t groups, int64_t from, int64_t to, const uint8_t *const *next,
    int64_t step) {
#if ISA == ISA_AVX2
#define FETCH , next, r ? 0 : step
#else
#define FETCH
#endif
#define CASE_R(R) \
    case R: \
        v_block(R, bits, f, weights + r * TILE * WEIGHT_BYTES, steps + r, strips, \
            sums + r * ldc + i, ldc, d, i, from, to FETCH); \
        break;
    for (; groups > 0; groups--, weights += vectors * TILE * WEIGHT_BYTES, steps += vectors)
        for (const int64_t end = i + f->group; i < end; i += 32)
            for (int64_t r = 0, m; r < vectors; r += m)
                switch (m = vectors_at_once(vectors - r)) { EACH_R }
#undef CASE_R
#undef FETCH
}
#undef EACH_R

#define INTEGERS(bits) \
    static void KERNEL(k_scores_##bits)(const struct kv_format *f, const uint8_t *codes, \
        const struct query_group *query, const uint8_t *const *strips, int64_t from, int64_t to, \
        float *scores, int64_t vectors, int64_t d, const char *const *next, int64_t next_bytes) { \
        k_scores_bits( \
            bits, f, codes, query, strips, from, to, scores, vectors, d, next, next_bytes); \
    } \
    static void KERNEL(v_values_##bits)(const struct kv_format *f, const uint8_t *weights, \
        const float *steps, const uint8_t *const *strips, float *sums, int64_t ldc, \
        int64_t vectors, int64_t d, int64_t i, int64_t groups, int64_t from, int64_t to, \
        const uint8_t *const *next, int64_t step) { \
        v_values_bits(bits, f, weights, steps, strips, sums, ldc, vectors, d, i, groups, from, to, \
            next, step); \
    }
INTEGERS(2)
INTEGERS(3)
INTEGERS(4)
INTEGERS(5)
INTEGERS(6)
INTEGERS(8)
#undef INTEGERS

#define k_scores KERNEL(k_scores)
SIMD void k_scores(const struct kv_format *f, const uint8_t *codes, const struct query_group *query,
    const uint8_t *const *strips, int64_t from, int64_t to, float *scores, int64_t vectors,
    int64_t d, const char *const *next, int64_t next_bytes){
#define CALL(bits) \
    KERNEL(k_scores_##bits)(f, codes, query, strips, from, to, scores, vectors, d, next, next_bytes)
    EACH_BITS(f -> bits, CALL)
#undef CALL
}

#define v_values KERNEL(v_values)
SIMD void v_values(const struct kv_format *f, const uint8_t *weights, const float *steps,
    const uint8_t *const *strips, float *sums, int64_t ldc, int64_t vectors, int64_t d, int64_t i,
    int64_t groups, int64_t from, int64_t to, const uint8_t *const *next, int64_t step) {
#define CALL(bits) \
    KERNEL(v_values_##bits)( \
        f, weights, steps, strips, sums, ldc, vectors, d, i, groups, from, to, next, step)
    EACH_BITS(f->bits, CALL)
#undef CALL
}
