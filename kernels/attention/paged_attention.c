// Attention of a block of query vectors over the pages of one sequence and KV head.
// paged_attention.go specifies the result and the order of sums. units.go describes the blocks and
// the records.
//
// Both products are C += A B: scores [vectors][64] = Q Kt, with K as [D][positions], and sums
// [vectors][D] += weights V, with V as [positions][D].
//
// Quantized B is multiplied in integers, directly from the pages (kv_tile.h). The products are in
// kv_dot.h, and in kv_amx.h for a matrix unit. AVX2 uses kv_run.h and kv_few.h for few vectors and
// kv_wide.h for many.
//
// Plain B, and every B if activations stay float32, is multiplied in float32 (kv_product.h). A
// block of many vectors (prefill) first converts a tile, K and then V in the same memory, so that
// it stays in the L1 cache. For a few vectors (decode), plain pages are converted in registers. In
// both cases an element of C is one chain of fused multiply-adds in the order of the inner index,
// so the bits are the same.
#include "paged_attention.h"
#ifdef ISA

#include "kv_format.h"
#include "kv_product.h"
#include "kv_round.h"
#include "kv_dot.h"
// Older compilers do not support AMX, and clang does not combine targets within a function.
#if ISA == ISA_VNNI && !defined(__clang__) && __GNUC__ >= 11
#define MATRIX_UNIT
#include "kv_amx.h"
#endif

#if ISA == ISA_AVX2
#include "kv_wide.h"
#endif
#include "../common/trees.h"
#include "kv_softmax.h"
#include "kv_tile.h"
#include "kv_latent.h"
#if ISA == ISA_AVX2
#include "kv_run.h"
#endif

// The most vectors for which converting in registers, possibly twice, is cheaper than writing a
// tile.
#define MAX_DIRECT 12

// scores = Q Kt for positions [from, to) of the tile at t, rounded out to multiples of 16.
#define score_tile KERNEL(score_tile)
static void score_tile(const struct job *j, int64_t t, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->k;
    const int64_t d = u->head_dim, p = u->page_tokens, vectors = u->rows * u->group,
                  row = kv_row_bytes(f, d), next_row = kv_row_bytes(&u->v, d);
    from &= ~15;
    to = (to + 15) & ~15;
    for (int64_t i = from, n; i < to; i += n) {
        const int64_t at = (t + i) % p;
        n = p - at < to - i ? p - at : to - i;
        const char *k = head_page(j, f, j->k_pages, t + i) +
            at * (f->bits ? row : kv_element_bytes((int)f->dtype));
        float *scores = j->scores + i;
        if (j->k_direct) { // V of the same positions is read next
            const char *next = head_page(j, &u->v, j->v_pages, t + i) + at * next_row;
            product((int)f->dtype, j->queries, d, k, p, scores, TILE, vectors, n, d, 0, next);
        } else if (f->bits) {
            for (int64_t s = 0; s < n; s += STRIP)
                k_read(f, j->tile + i + s, TILE, (const uint8_t *)k + s * row, d, 0, d);
        } else {
            kv_read((int)f->dtype, j->tile + i, TILE, k, p, d, n);
        }
    }
    if (!j->k_direct)
        product_f32(j->queries, d, j->tile + from, TILE, j->scores + from, TILE, vectors, to - from,
            d, 0, (const char *)j->tile);
}

// tile = V of positions [from, to) of the tile at t.
#define read_values KERNEL(read_values)
static void read_values(const struct job *j, int64_t t, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    if (u->value_dim != u->head_dim) {
        read_latents(j, t, from, to);
        return;
    }
    const int64_t d = u->head_dim, unit = f->bits ? STRIP : u->page_tokens,
                  row = kv_row_bytes(f, d);
    for (int64_t i = from, n; i < to; i += n) {
        const int64_t at = (t + i) % u->page_tokens, in = at % unit;
        n = unit - in < to - i ? unit - in : to - i;
        const char *v = head_page(j, f, j->v_pages, t + i) + (at - in) * row;
        if (f->bits)
            v_read(f, j->tile + i * d, d, (const uint8_t *)v, d, in, in + n);
        else
            kv_read((int)f->dtype, j->tile + i * d, d, v + in * row, d, n, d);
    }
}

// part += weights V over positions [from, to) of the tile at t, for vectors [first, first + count).
#define sum_tile KERNEL(sum_tile)
static void sum_tile(
    const struct job *j, int64_t t, int64_t from, int64_t to, int64_t first, int64_t count) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    const int64_t d = u->value_dim, p = u->page_tokens, record = record_floats(u),
                  row = kv_row_bytes(f, d), next_row = kv_row_bytes(&u->k, u->head_dim);
    const float *weights = j->scores + first * TILE;
    float *sums = j->part + first * record;
    if (!j->v_direct) {
        product_f32(weights + from, TILE, j->tile + from * d, d, sums, record, count, d, to - from,
            1, (const char *)j->tile);
        return;
    }
    for (int64_t i = from, n; i < to; i += n) { // K of the next tile is read next
        const int64_t at = (t + i) % p;
        n = p - at < to - i ? p - at : to - i;
        const char *v = head_page(j, f, j->v_pages, t + i),
                   *next = head_page(j, &u->k, j->k_pages, t + i + TILE);
        product(
            (int)f->dtype, weights + i, TILE, v + at * row, d, sums, record, count, d, n, 1, next);
    }
}

// part += weights V for a tile in float32. Each row sees [from, to) of the tile or a part of it.
#define sum_plain KERNEL(sum_plain)
static void sum_plain(const struct job *j, const struct tile_view *v) {
    const struct attention_unit *u = j->u;
    int64_t whole = 0, a, b;
    if (!j->v_direct) read_values(j, v->t, v->from, v->to);
    for (int64_t r = 0; r < u->rows; r++)
        whole += seen(u, u->pos + r, v->t, v->sinks, &a, &b) && a == v->from && b == v->to;
    if (whole == u->rows) {
        sum_tile(j, v->t, v->from, v->to, 0, u->rows * u->group);
        return;
    }
    for (int64_t r = 0; r < u->rows; r++)
        if (seen(u, u->pos + r, v->t, v->sinks, &a, &b))
            sum_tile(j, v->t, a, b, r * u->group, u->group);
}

// Adds the tile at t to the record of every vector that sees part of it.
#define do_tile KERNEL(do_tile)
static void do_tile(const struct job *j, int64_t t, int sinks) {
    const struct attention_unit *u = j->u;
    const int64_t vectors = u->rows * u->group;
    struct tile_view v;
    int64_t begin;
    if (!view_tile(u, t, sinks, &v)) return;
    if (j->k_integer || j->v_integer) open_tile(j, &v);
    for (int64_t first = 0; first < vectors; first += j->block) {
        const int64_t count = vectors - first < j->block ? vectors - first : j->block;
        if (j->k_integer)
            score_codes(j, &v, first, count);
        else
            score_tile(j, t, v.from, v.to);
        if (u->cap != 0) cap_scores(u->cap, j->scores, count, v.from & ~15, (v.to + 15) & ~15);
        if (first == 0 && j->v_integer) open_values(j, &v);
        const int64_t seeing = weigh_block(j, &v, first, count, &begin);
        if (seeing && j->v_integer) sum_codes(j, &v, first, begin, seeing);
    }
    if (!j->v_integer) sum_plain(j, &v);
}

#include "kv_observe.h"

#define reset_record KERNEL(reset_record)
SIMD void reset_record(float *record, int64_t d) {
    for (int64_t i = 0; i < d; i += 16) v_store(record + i, v_zero());
    record[d] = -INFINITY;
    record[d + 1] = 0;
}

#define begin_segment KERNEL(begin_segment)
static void begin_segment(const struct job *j) {
    const struct attention_unit *u = j->u;
    for (int64_t i = 0; i < u->rows * u->group; i++)
        reset_record(j->part + i * record_floats(u), u->value_dim);
    for (int64_t i = 0; i < u->rows * u->group * middle_floats(j); i += 16)
        v_store(j->middles + i, v_zero());
}

// Adds the middles to the sums of their groups.
#define end_segment KERNEL(end_segment)
static void end_segment(const struct job *j) {
    const struct attention_unit *u = j->u;
    if (!j->v_integer) return;
    for (int64_t i = 0; i < u->rows * u->group; i++)
        for (int64_t g = 0; g < u->head_dim / u->v.group; g++) {
            const f32x16 middle = v_set1(v_sum(v_load(j->middles + i * middle_floats(j) + 16 * g)));
            float *x = j->part + i * record_floats(u) + g * u->v.group;
            for (int64_t c = 0; c < u->v.group; c += 16)
                v_store(x + c, v_add(v_load(x + c), middle));
        }
}

// Initializes the records that segments are merged into. They are empty, or hold the sink: a score
// with weight 1 and no value.
#define init_totals KERNEL(init_totals)
static void init_totals(const struct attention_unit *u, const float *sinks, float *total) {
    for (int64_t i = 0; i < u->rows * u->group; i++) {
        float *t = total + i * record_floats(u);
        reset_record(t, u->value_dim);
        if (sinks) {
            t[u->value_dim] = sinks[i % u->group];
            t[u->value_dim + 1] = 1;
        }
    }
}

// Merges the records of a segment into total. The record of a vector that saw nothing of the
// segment does not change.
#define merge_segment KERNEL(merge_segment)
static void merge_segment(const struct attention_unit *u, const float *part, float *total) {
    const int64_t d = u->value_dim;
    for (int64_t i = 0; i < u->rows * u->group; i++) {
        const float *p = part + i * record_floats(u);
        float *t = total + i * record_floats(u);
        if (p[d] == -INFINITY) continue;
        float highest = t[d] > p[d] ? t[d] : p[d];
        float a = exp1(t[d] - highest), b = exp1(p[d] - highest);
        t[d] = highest;
        t[d + 1] = t[d + 1] * a + p[d + 1] * b;
        for (int64_t j = 0; j < d; j += 16)
            v_store(t + j, v_fma(v_load(p + j), v_set1(b), v_mul(v_load(t + j), v_set1(a))));
    }
}

#define finish KERNEL(finish)
static void finish(const struct attention_unit *u, const float *total, float *out) {
    for (int64_t i = 0; i < u->rows * u->group; i++) {
        const float *t = total + i * record_floats(u);
        float *y = out + i / u->group * u->out_stride + i % u->group * u->value_dim;
        f32x16 weight = v_set1(t[u->value_dim + 1]);
        for (int64_t j = 0; j < u->value_dim; j += 16) v_store(y + j, v_div(v_load(t + j), weight));
    }
}

#define attend KERNEL(attend)
SIMD void attend(const struct attention_unit *u, const float *q, float *out, const float *sinks,
    const void *k_pages, const void *v_pages, const int32_t *pages, float *scratch, float *part,
    uint8_t *k_room, uint8_t (*v_room)[16][64]) {
    const int64_t d = u->head_dim, vectors = u->rows * u->group, record = record_floats(u);
#if ISA == ISA_AVX2
    uint8_t k_wide[TILE * WIDE_DIMS * 2] __attribute__((aligned(64))),
        v_wide[TILE * WIDE_DIMS * 2] __attribute__((aligned(64)));
    const int wide = vectors >= WIDE_MIN && d <= WIDE_DIMS;
#endif
    const int split = part != NULL, latent = u->value_dim != d;
    float *queries = scratch + TILE * d, *scores = queries + vectors * d,
          *total = scores + vectors * TILE, *more = total + 2 * vectors * record;
    if (!split) part = total + vectors * record;
    struct job j = {.u = u,
        .k_pages = (const char *)k_pages + u->k_offset,
        .v_pages = (const char *)v_pages + u->v_offset,
        .pages = pages,
        .last = seen_to(u, u->pos + u->rows - 1) - 1,
        .queries = queries,
        .tile = scratch,
        .scores = scores,
        .part = part,
        .k_direct = vectors <= MAX_DIRECT && !u->k.bits,
        .v_direct = vectors <= MAX_DIRECT && !u->v.bits && !latent,
        .k_integer = u->k.bits && !u->exact,
        .v_integer = u->v.bits && !u->exact && !latent,
        .k_room = k_room,
        .v_room = v_room};
#if ISA == ISA_AVX2
    if (wide) j.k_wide = k_wide, j.v_wide = v_wide;
#endif
    j.block = j.k_integer && j.v_integer && vectors > WEIGH_AT_ONCE ? WEIGH_AT_ONCE : vectors;
    j.last_page = j.last / u->page_tokens;
    struct attention_unit start_unit = *u; // the same unit over the pages of the Start
    start_unit.k = u->start_k;
    start_unit.v = u->start_v;
    const struct job start = {.u = &start_unit,
        .k_pages = k_pages,
        .v_pages = v_pages,
        .pages = pages,
        .last = j.last < u->start_tokens ? j.last : u->start_tokens - 1,
        .queries = queries,
        .tile = scratch,
        .scores = scores,
        .part = part,
        .k_direct = vectors <= MAX_DIRECT,
        .v_direct = vectors <= MAX_DIRECT && !latent,
        .block = vectors};
    for (int64_t i = 0; i < vectors; i++) {
        const float *x = q + i / u->group * u->q_stride + i % u->group * d;
        for (int64_t c = 0; c < d; c += 16)
            v_store(queries + i * d + c, v_mul(v_load(x + c), v_set1(u->scale)));
    }
    if (j.k_integer) {
        const int64_t groups = kv_groups(&u->k, d);
        j.codes = (uint8_t *)more;
        j.groups = (struct query_group *)(more + vectors * d / 2);
        more += vectors * (d / 2 + 3 * groups);
        for (int64_t i = 0; i < vectors; i++)
            round_query(queries + i * d, u->k.group, d, j.codes + i * d * QUERY_BYTES,
                j.groups + i * groups);
    }
    if (j.v_integer) {
        j.whole = (struct value_group *)more;
        more += kv_groups(&u->v, d) * (int64_t)(sizeof *j.whole / 4);
        j.middles = more;
        j.units = j.middles + vectors * middle_floats(&j);
        j.steps = j.units + vectors;
        j.weights = (uint8_t *)(j.steps + vectors);
    }
    if (!split) init_totals(u, sinks, total);
    if (u->sinks) {
        begin_segment(&j);
        do_tile(&j, 0, 1);
        end_segment(&j);
        if (!split) merge_segment(u, part, total);
    }
    for (int64_t segment = u->from; segment < u->to; segment++) {
        const struct job *part_of = segment * SEGMENT < u->start_tokens ? &start : &j;
        begin_segment(part_of);
        const int64_t end =
            (segment + 1) * SEGMENT < j.last + 1 ? (segment + 1) * SEGMENT : j.last + 1;
        for (int64_t t = segment * SEGMENT, n; t < end; t += n * TILE) {
#if ISA == ISA_AVX2
            if ((n = run_tiles(part_of, t, end)) > 0) {
                do_run(part_of, t, n, end);
                continue;
            }
#endif
            n = 1;
            do_tile(part_of, t, 0);
        }
        end_segment(part_of);
        if (!split) merge_segment(u, part, total);
    }
    if (!split) finish(u, total, out);
}

static void KERNEL(attention)(const struct attention_unit *u, const float *q, float *out,
    const float *sinks, const void *k_pages, const void *v_pages, const int32_t *pages,
    float *scratch, float *part) {
    attend(u, q, out, sinks, k_pages, v_pages, pages, scratch, part, NULL, NULL);
}

#ifdef MATRIX_UNIT
static void attention_amx(const struct attention_unit *u, const float *q, float *out,
    const float *sinks, const void *k_pages, const void *v_pages, const int32_t *pages,
    float *scratch, float *part) {
    uint8_t k_room[TILE * MATRIX_DIMS] __attribute__((aligned(64))),
        v_room[MATRIX_DIMS / 16][16][64] __attribute__((aligned(64)));
    if (u->rows * u->group < MATRIX_MIN || u->exact || u->head_dim > MATRIX_DIMS) {
        KERNEL(attention)(u, q, out, sinks, k_pages, v_pages, pages, scratch, part);
        return;
    }
    KERNEL(amx_begin)(u->rows * u->group);
    attend(u, q, out, sinks, k_pages, v_pages, pages, scratch, part, k_room, v_room);
    KERNEL(amx_end)();
}
#elif ISA == ISA_VNNI
#define attention_amx attention_vnni
#endif
#if ISA == ISA_VNNI
#define attention_merge_amx attention_merge_vnni
#define attention_observe_amx attention_observe_vnni
#endif

static void KERNEL(attention_merge)(const struct attention_unit *u, float *out, const float *sinks,
    const float *part, float *scratch) {
    init_totals(u, sinks, scratch);
    for (int64_t s = 0; s < u->sinks + u->to - u->from; s++)
        merge_segment(u, part + s * u->part_stride, scratch);
    finish(u, scratch, out);
}

#else

#define KERNEL_USES_VNNI
#define KERNEL_USES_AMX
#define KERNEL_SOURCE "paged_attention.c"
#include "../common/foreach_isa.h"

void headroom_attention(int isa, const struct attention_unit *u, const float *q, float *out,
    const float *sinks, const void *k_pages, const void *v_pages, const int32_t *pages,
    float *scratch, float *part) {
    DISPATCH(isa, attention, (u, q, out, sinks, k_pages, v_pages, pages, scratch, part));
}

void headroom_attention_merge(int isa, const struct attention_unit *u, float *out,
    const float *sinks, const float *part, float *scratch) {
    DISPATCH(isa, attention_merge, (u, out, sinks, part, scratch));
}

void headroom_attention_observe(int isa, const struct attention_unit *u, const float *q,
    const void *k_pages, const int32_t *pages, float *scratch, float *records, float *sums) {
    DISPATCH(isa, attention_observe, (u, q, k_pages, pages, scratch, records, sums));
}

#endif
