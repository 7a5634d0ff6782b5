// Causal attention of a block of query vectors over the pages of one sequence and KV head: see paged_attention.go for what is
// computed and in which order, units.go for blocks and records.
//
// A tile is 64 positions, gathered from pages and converted to float32 once for the block: first K as [D][64], then, in the
// same memory, V as [64][D], so that it stays in the first-level cache. Both products are C += A B with B the tile: scores
// [vectors][64] = Q Kt and sums [vectors][D] += weights V. Each element of C is one chain of fused multiply-adds in the order
// of the inner index, so it has the same bits however rows and columns are blocked for registers.
#include "paged_attention.h"
#ifdef ISA

#include "kv_format.h"

#define record_floats(u) ((u)->head_dim + 16)

// C[R][16N] = A[R][from, to) B[from, to)[16N], plus what C held if add. R and N are constants where it is inlined.
#define product_block KERNEL(product_block)
SIMD void product_block(const int R, const int N, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t from,
                        int64_t to, int add) {
    f32x16 sum[6][4];
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] = add ? v_load(c + r * ldc + 16 * n) : v_zero();
    for (int64_t k = from; k < to; k++) {
        f32x16 row[4];
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) row[n] = v_load(b + k * ldb + 16 * n);
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            f32x16 x = v_set1(a[r * lda + k]);
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) sum[r][n] = v_fma(x, row[n], sum[r][n]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) v_store(c + r * ldc + 16 * n, sum[r][n]);
}

// C[rows][cols] = A[rows][from, to) B[from, to)[cols], plus what C held if add; cols is a multiple of 16. Six rows and four
// vectors fill the 32 registers of AVX-512; the others take one vector of f32x16 (two or four registers).
#define product KERNEL(product)
static void product(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t rows, int64_t cols, int64_t from,
                    int64_t to, int add) {
#define BLOCK(R, N) case R * 8 + N: product_block(R, N, a + r * lda, lda, b + i, ldb, c + r * ldc + i, ldc, from, to, add); break;
#define BLOCKS(N) BLOCK(1, N) BLOCK(2, N) BLOCK(3, N) BLOCK(4, N) BLOCK(5, N) BLOCK(6, N)
    for (int64_t i = 0, n; i < cols; i += 16 * n) {
#if ISA == ISA_AVX512
        n = cols - i >= 64 ? 4 : cols - i >= 32 ? 2 : 1;
#else
        n = 1;
#endif
        for (int64_t r = 0, m; r < rows; r += m) {
            int64_t left = rows - r;
            m = left % 4 == 0 && left < 12 ? 4 : left < 6 ? left : 6;
            switch (m * 8 + n) {
#if ISA == ISA_AVX512
            BLOCKS(4)
            BLOCKS(2)
#endif
            BLOCKS(1)
            }
        }
    }
#undef BLOCKS
#undef BLOCK
}

#define exp1 KERNEL(exp1)
SIMD float exp1(float x) {
    float y[16];
    v_store(y, v_exp(v_set1(x)));
    return y[0];
}

// The scores of one vector for positions [from, to) of a tile become weights relative to the highest score so far, and its
// record is brought up to it. s holds whole vectors of 16; those outside [from, to) become zero weights, which change no sum.
#define weigh KERNEL(weigh)
SIMD void weigh(float *s, int64_t from, int64_t to, float *record, int64_t d) {
    const int64_t first = from & ~15, end = (to + 15) & ~15;
    for (int64_t i = first; i < from; i++) s[i] = -INFINITY;
    for (int64_t i = to; i < end; i++) s[i] = -INFINITY;
    f32x16 top = v_set1(record[d]);
    for (int64_t i = first; i < end; i += 16) top = v_max(top, v_load(s + i));
    const float highest = v_hmax(top), before = record[d];
    top = v_set1(highest);
    for (int64_t i = first; i < end; i += 16) v_store(s + i, v_exp(v_sub(v_load(s + i), top)));
    for (int64_t i = first; i < from; i++) s[i] = 0;
    for (int64_t i = to; i < end; i++) s[i] = 0;
    f32x16 sum = v_zero();
    for (int64_t i = first; i < end; i += 16) sum = v_add(sum, v_load(s + i));
    if (highest == before) {
        record[d + 1] += v_sum(sum);
        return;
    }
    const float scale = exp1(before - highest);
    record[d] = highest;
    record[d + 1] = record[d + 1] * scale + v_sum(sum);
    for (int64_t i = 0; i < d; i += 16) v_store(record + i, v_mul(v_load(record + i), v_set1(scale)));
}

#define seen_from KERNEL(seen_from)
SIMD int64_t seen_from(const struct attention_unit *u, int64_t pos) {
    return u->window == 0 || pos < u->window ? 0 : pos - u->window + 1;
}

// Positions [from, to) of the tile at t, from a multiple of 16, as float32: K as [D][TILE], V as [TILE][D].
#define read_tile KERNEL(read_tile)
static void read_tile(const struct attention_unit *u, int is_v, const void *base, const int32_t *pages, int64_t t, int64_t from, int64_t to, float *tile) {
    const int64_t d = u->head_dim, p = u->page_tokens;
    for (int64_t i = from, n; i < to; i += n) {
        int64_t at = (t + i) % p;
        int64_t head = ((int64_t)pages[(t + i) / p] * u->kv_heads + u->kv_head) * d * p;
        n = p - at < to - i ? p - at : to - i;
        if (is_v)
            kv_read((int)u->dtype, tile + i * d, d, base, head + at * d, d, n, d);
        else
            kv_read((int)u->dtype, tile + i, TILE, base, head + at, p, d, (n + 15) & ~15);
    }
}

// Every vector that sees positions of the tile at t takes them in.
#define do_tile KERNEL(do_tile)
static void do_tile(const struct attention_unit *u, int64_t t, const float *q, const void *k_pages, const void *v_pages, const int32_t *pages,
                    float *tile, float *scores, float *part) {
    const int64_t d = u->head_dim, record = record_floats(u), vectors = u->rows * u->group;
    int64_t from = seen_from(u, u->pos) - t, to = u->pos + u->rows - t;
    if (from < 0) from = 0;
    if (to > TILE) to = TILE;
    if (from >= to) return;
    from &= ~15;
    read_tile(u, 0, k_pages, pages, t, from, to, tile);
    product(q, d, tile + from, TILE, scores + from, TILE, vectors, (to - from + 15) & ~15, 0, d, 0);
    int64_t whole = 0; // rows that see the whole tile
    for (int64_t r = 0; r < u->rows; r++) {
        int64_t a = seen_from(u, u->pos + r) - t, b = u->pos + r + 1 - t;
        if (a < 0) a = 0;
        if (b > TILE) b = TILE;
        if (a < b)
            for (int64_t g = 0; g < u->group; g++) weigh(scores + (r * u->group + g) * TILE, a, b, part + (r * u->group + g) * record, d);
        whole += a == 0 && b == TILE;
    }
    read_tile(u, 1, v_pages, pages, t, from, to, tile);
    if (whole == u->rows) {
        product(scores, TILE, tile, d, part, record, vectors, d, 0, TILE, 1);
        return;
    }
    for (int64_t r = 0; r < u->rows; r++) {
        int64_t a = seen_from(u, u->pos + r) - t, b = u->pos + r + 1 - t;
        if (a < 0) a = 0;
        if (b > TILE) b = TILE;
        if (a < b) product(scores + r * u->group * TILE, TILE, tile, d, part + r * u->group * record, record, u->group, d, a, b, 1);
    }
}

#define reset_record KERNEL(reset_record)
SIMD void reset_record(float *record, int64_t d) {
    for (int64_t i = 0; i < d; i += 16) v_store(record + i, v_zero());
    record[d] = -INFINITY;
    record[d + 1] = 0;
}

// The records that segments are merged into: nothing yet, or the sink, a score with a weight and no value.
#define begin KERNEL(begin)
static void begin(const struct attention_unit *u, const float *sinks, float *total) {
    for (int64_t i = 0; i < u->rows * u->group; i++) {
        float *t = total + i * record_floats(u);
        reset_record(t, u->head_dim);
        if (sinks) {
            t[u->head_dim] = sinks[i % u->group];
            t[u->head_dim + 1] = 1;
        }
    }
}

// A vector that saw nothing of the segment stays as it is.
#define merge_segment KERNEL(merge_segment)
static void merge_segment(const struct attention_unit *u, const float *part, float *total) {
    const int64_t d = u->head_dim;
    for (int64_t i = 0; i < u->rows * u->group; i++) {
        const float *p = part + i * record_floats(u);
        float *t = total + i * record_floats(u);
        if (p[d] == -INFINITY) continue;
        float highest = t[d] > p[d] ? t[d] : p[d];
        float a = exp1(t[d] - highest), b = exp1(p[d] - highest);
        t[d] = highest;
        t[d + 1] = t[d + 1] * a + p[d + 1] * b;
        for (int64_t j = 0; j < d; j += 16) v_store(t + j, v_fma(v_load(p + j), v_set1(b), v_mul(v_load(t + j), v_set1(a))));
    }
}

#define finish KERNEL(finish)
static void finish(const struct attention_unit *u, const float *total, float *out) {
    for (int64_t i = 0; i < u->rows * u->group; i++) {
        const float *t = total + i * record_floats(u);
        float *y = out + i / u->group * u->out_stride + i % u->group * u->head_dim;
        f32x16 weight = v_set1(t[u->head_dim + 1]);
        for (int64_t j = 0; j < u->head_dim; j += 16) v_store(y + j, v_div(v_load(t + j), weight));
    }
}

static void KERNEL(attention)(const struct attention_unit *u, const float *q, float *out, const float *sinks, const void *k_pages, const void *v_pages,
                              const int32_t *pages, float *scratch, float *part) {
    const int64_t d = u->head_dim, vectors = u->rows * u->group;
    float *tile = scratch, *queries = tile + TILE * d, *scores = queries + vectors * d, *total = scores + vectors * TILE;
    const int split = part != NULL;
    for (int64_t i = 0; i < vectors; i++) {
        const float *x = q + i / u->group * u->q_stride + i % u->group * d;
        for (int64_t j = 0; j < d; j += 16) v_store(queries + i * d + j, v_mul(v_load(x + j), v_set1(u->scale)));
    }
    if (!split) {
        part = total + vectors * record_floats(u);
        begin(u, sinks, total);
    }
    for (int64_t segment = u->from; segment < u->to; segment++) {
        for (int64_t i = 0; i < vectors; i++) reset_record(part + i * record_floats(u), d);
        for (int64_t t = segment * SEGMENT; t < (segment + 1) * SEGMENT; t += TILE)
            do_tile(u, t, queries, k_pages, v_pages, pages, tile, scores, part);
        if (!split) merge_segment(u, part, total);
    }
    if (!split) finish(u, total, out);
}

static void KERNEL(attention_merge)(const struct attention_unit *u, float *out, const float *sinks, const float *part, float *scratch) {
    begin(u, sinks, scratch);
    for (int64_t s = 0; s < u->to - u->from; s++) merge_segment(u, part + s * u->part_stride, scratch);
    finish(u, scratch, out);
}

#else

#define KERNEL_SOURCE "paged_attention.c"
#include "foreach_isa.h"

void headroom_attention(int isa, const struct attention_unit *u, const float *q, float *out, const float *sinks, const void *k_pages,
                        const void *v_pages, const int32_t *pages, float *scratch, float *part) {
    DISPATCH(isa, attention, (u, q, out, sinks, k_pages, v_pages, pages, scratch, part));
}

void headroom_attention_merge(int isa, const struct attention_unit *u, float *out, const float *sinks, const float *part, float *scratch) {
    DISPATCH(isa, attention_merge, (u, out, sinks, part, scratch));
}

#endif
