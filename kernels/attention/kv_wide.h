// The products of kv_dot.h for many vectors on AVX2, whose products of bytes saturate. The codes of
// a tile are widened to 16 bits once for all vectors. The inner loop then has only products and
// sums, with enough registers for four vectors and two operands of codes. It adds the same
// integers and does the same float32 operations, so the bits are the same. Included after kv_dot.h,
// for AVX2 only.
//
// A row of 64 bytes holds pairs of codes that are neighbours along the inner index, for sixteen
// positions or dimensions. A strip of K is [dimensions/2][16 positions][2], in the order of
// store_query. Sixteen dimensions of V are [positions/2][16 dimensions][2].

#define WIDE_MIN 8    // fewest vectors for which widening pays off
#define WIDE_DIMS 256 // largest head dimension
#define WIDE_ROW 64   // bytes per row

// Stores half h of two rows from one register of codes.
SIMD void KERNEL(wide_store)(uint8_t *rows, lanes_i x, const int h) {
    const quad_operand pairs = quad_open(x);
    _mm256_store_si256((__m256i *)(rows + 32 * h), pairs.even);
    _mm256_store_si256((__m256i *)(rows + WIDE_ROW + 32 * h), pairs.odd);
}

SIMD void KERNEL(k_wide_bits)(
    const int bits, const struct kv_format *f, const uint8_t *strip, int64_t d, uint8_t *rows) {
    const uint8_t *p = strip + kv_param_bytes(f, d);
    for (int64_t i = 0; i < d; i += 32, p += 64 * bits)
#pragma GCC unroll 8
        for (int q = 0; q < 8; q++, rows += 2 * WIDE_ROW)
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) KERNEL(wide_store)(rows, k_quad(bits, p, q, h), h);
}

// Widens a strip of K.
static void KERNEL(k_wide)(
    const struct kv_format *f, const uint8_t *strip, int64_t d, uint8_t *rows){
#define CALL(bits) KERNEL(k_wide_bits)(bits, f, strip, d, rows)
    EACH_BITS(f -> bits, CALL)
#undef CALL
}

SIMD void KERNEL(v_wide_bits)(
    const int bits, const struct kv_format *f, const uint8_t *strip, int64_t d, uint8_t *rows) {
    const uint8_t *p = strip + kv_param_bytes(f, d);
    for (int64_t i = 0; i < d; i += 32, p += 64 * bits, rows += 2 * TILE / 2 * WIDE_ROW)
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++)
#pragma GCC unroll 2
                for (int h = 0; h < 2; h++)
                    KERNEL(wide_store)(rows + (v * TILE / 2 + 2 * V_FOUR(q)) * WIDE_ROW,
                        v_quad(bits, p + 16 * bits * q, v, h), h);
}

// Widens a strip of V. rows points to the row of its first position and first sixteen dimensions.
static void KERNEL(v_wide)(
    const struct kv_format *f, const uint8_t *strip, int64_t d, uint8_t *rows){
#define CALL(bits) KERNEL(v_wide_bits)(bits, f, strip, d, rows)
    EACH_BITS(f -> bits, CALL)
#undef CALL
}

// sums[r] = the dot products of rows with the numbers of R vectors, which are stride bytes apart.
// pairs is the number of rows, a multiple of 8.
SIMD void KERNEL(wide_dot)(const int R, const uint8_t *rows, const uint8_t *by, int64_t stride,
    int64_t pairs, lanes_i (*sums)[2]) {
    lanes_i acc[4][2];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = l_zero();
    for (; pairs > 0; pairs -= 8, rows += 8 * WIDE_ROW, by += 8 * 4)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            const lanes_i a = l_load(rows + i * WIDE_ROW), b = l_load(rows + i * WIDE_ROW + 32);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) {
                acc[r][0] = int_pair(acc[r][0], a, by + r * stride + 4 * i);
                acc[r][1] = int_pair(acc[r][1], b, by + r * stride + 4 * i);
            }
        }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) sums[r][0] = acc[r][0], sums[r][1] = acc[r][1];
}

// Computes the scores of R vectors for a strip, whose widened codes are in `rows`.
SIMD void KERNEL(k_block_wide)(const int R, const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *strip, const uint8_t *rows, float *scores,
    int64_t d) {
    const int64_t groups = kv_groups(f, d);
    lanes_f score[4][2];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) score[r][0] = score[r][1] = l_set1(0);
    for (int64_t g = 0; g < groups; g++) {
        lanes_i dot[4][2];
        KERNEL(wide_dot)(R, rows + g * f->group / 2 * WIDE_ROW, codes + g * f->group * QUERY_BYTES,
            d * QUERY_BYTES, f->group / 2, dot);
        add_group(R, f, query, strip, groups, g, dot, score);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) l_storef(scores + r * TILE + h * LANES, score[r][h]);
}

// Does the same as k_scores with the widened codes of a tile. It also prefetches next_bytes bytes
// at next[strip].
static void KERNEL(k_scores_wide)(const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *const *strips, const uint8_t *rows,
    int64_t from, int64_t to, float *scores, int64_t vectors, int64_t d, const uint8_t *const *next,
    int64_t next_bytes) {
    const int64_t groups = kv_groups(f, d);
    for (int64_t s = from; s < to; s++) {
        for (int64_t line = 0; line < next_bytes; line += 64)
            __builtin_prefetch(next[s] + line, 0, 2);
        for (int64_t r = 0, m; r < vectors; r += m) {
#define BLOCK(R) \
    KERNEL(k_block_wide)(R, f, codes + r * d * QUERY_BYTES, query + r * groups, strips[s], \
        rows + s * d / 2 * WIDE_ROW, scores + r * TILE + s * STRIP, d)
            switch (m = vectors_at_once(vectors - r)) {
            case 1: BLOCK(1); break;
            case 2: BLOCK(2); break;
            default: BLOCK(4);
            }
#undef BLOCK
        }
    }
}

// Does the same as v_values with the widened codes of `dims` dimensions, for positions [from, to)
// of a tile.
static void KERNEL(v_values_wide)(const uint8_t *rows, int64_t dims, const uint8_t *weights,
    const float *steps, float *sums, int64_t ldc, int64_t vectors, int64_t from, int64_t to) {
    rows += from / 2 * WIDE_ROW;
    weights += from * WEIGHT_BYTES;
    for (; dims > 0; dims -= 16, rows += TILE / 2 * WIDE_ROW, sums += 16)
        for (int64_t r = 0, m; r < vectors; r += m) {
            lanes_i total[4][2];
#define BLOCK(R) \
    KERNEL(wide_dot)( \
        R, rows, weights + r * TILE * WEIGHT_BYTES, TILE * WEIGHT_BYTES, (to - from) / 2, total); \
    for (int n = 0; n < R; n++) \
        for (int h = 0; h < 2; h++) { \
            float *c = sums + (r + n) * ldc + h * LANES; \
            l_storef(c, l_fma(l_float(total[n][h]), l_set1(steps[r + n]), l_loadf(c))); \
        }
            switch (m = vectors_at_once(vectors - r)) {
            case 1: BLOCK(1) break;
            case 2: BLOCK(2) break;
            default: BLOCK(4)
            }
#undef BLOCK
        }
}
