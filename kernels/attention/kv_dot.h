// The products of attention in integers, directly from quantized pages: scores of rounded queries
// with codes of K, and sums of codes of V with rounded weights (kv_round.h). Sums of integers are
// exact, so an element has the same bits for every blocking and on every instruction set. Products
// are added to float32 sums once per group of K, in order, and once per tile of V. Included once
// per instruction set, after kv_format.h.

// These define the blocks of vectors: k_scores_bits, v_block, vectors_at_once and EACH_R.
#if ISA == ISA_AVX2
#include "kv_few.h"
#else
#include "kv_blocks.h"
#endif

// Adds the products of weights and V to sums [vectors][dimensions]. Dimension i begins the first of
// `groups` groups of dimensions. weights are [groups][vectors][TILE], steps [groups][vectors]. On
// AVX2 it also prefetches `step` bytes of `next` per strip and 32 dimensions.
#define v_values_bits KERNEL(v_values_bits)
SIMD void v_values_bits(const int bits, const struct kv_format *f, const uint8_t *weights,
    const float *steps, const uint8_t *const *strips, float *sums, int64_t ldc, int64_t vectors,
    int64_t d, int64_t i, int64_t groups, int64_t from, int64_t to, const uint8_t *const *next,
    int64_t step) {
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
}
#undef FETCH
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
