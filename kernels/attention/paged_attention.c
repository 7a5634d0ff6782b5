// Causal attention of a block of query vectors over the pages of one sequence and KV head: see paged_attention.go for what is
// computed and in which order, units.go for blocks and records.
//
// Both products are C += A B: scores [vectors][64] = Q Kt, with K as [D][positions], and sums [vectors][D] += weights V, with V
// as [positions][D]. Quantized B is multiplied as it lies in the pages, in integers (kv_dot.h). Plain B, and all B where activations
// are to stay float32, is multiplied in float32 (kv_product.h): a block of many vectors (prefill) first converts the tile, K and then V in
// the same memory, so that it stays in the first-level cache; for a few (decode) plain pages are converted in registers. Each
// element of C then is one chain of fused multiply-adds in the order of the inner index, so it has the same bits either way.
#include "paged_attention.h"
#ifdef ISA

#include "kv_format.h"
#include "kv_product.h"
#include "kv_round.h"
#include "kv_dot.h"

#define record_floats(u) ((u)->head_dim + 16)
#define MAX_DIRECT 12 // vectors up to which converting twice in registers is cheaper than writing a tile

#define exp1 KERNEL(exp1)
SIMD float exp1(float x) {
    float y[16];
    v_store(y, v_exp(v_set1(x)));
    return y[0];
}

#define rescale KERNEL(rescale)
SIMD void rescale(float *x, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i += 16) v_store(x + i, v_mul(v_load(x + i), v_set1(scale)));
}

// The scores of one vector for positions [from, to) of a tile become weights relative to the highest score so far, and its
// record (and its middles, n floats) is brought up to it. s holds whole vectors of 16; those outside [from, to) become zero weights,
// which change no sum.
#define weigh KERNEL(weigh)
SIMD void weigh(float *s, int64_t from, int64_t to, float *record, int64_t d, float *middles, int64_t n) {
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
    rescale(record, d, scale);
    rescale(middles, n, scale);
}

// What a tile is worked on with.
#define job KERNEL(job)
struct job {
    const struct attention_unit *u;
    const char *k_pages, *v_pages;
    const int32_t *pages;
    int64_t last;               // position whose pages they are
    const float *queries;
    float *tile, *scores, *part;
    int k_direct, v_direct;     // multiply plain elements from the pages, without the tile
    int k_integer, v_integer;   // multiply codes
    uint8_t *codes;             // k_integer: the queries, rounded, with their groups
    struct query_group *groups;
    float *middles;             // v_integer: what the middles of the codes add up to since the segment began, 16 lanes per group
    float *units, *steps;       // what a weight is worth, and one of a group's codes
    uint8_t *weights;
};

// Floats of middles per vector.
#define middle_floats KERNEL(middle_floats)
SIMD int64_t middle_floats(const struct job *j) { return j->v_integer ? 16 * kv_groups(&j->u->v, j->u->head_dim) : 0; }

// The K or V (pages, of format f) of this KV head in the page that holds pos; a position past the last counts as that.
#define head_page KERNEL(head_page)
SIMD const char *head_page(const struct job *j, const struct kv_format *f, const char *pages, int64_t pos) {
    const struct attention_unit *u = j->u;
    const int64_t page = j->pages[(pos < j->last ? pos : j->last) / u->page_tokens];
    return pages + (page * u->kv_heads + u->kv_head) * u->page_tokens * kv_row_bytes(f, u->head_dim);
}

// The strips that positions [from, to) of the tile at t lie in.
#define find_strips KERNEL(find_strips)
SIMD void find_strips(const struct job *j, const struct kv_format *f, const char *pages, int64_t t, int64_t from, int64_t to, const uint8_t **strips) {
    for (int64_t i = from & ~15; i < to; i += STRIP)
        strips[i / STRIP] = (const uint8_t *)head_page(j, f, pages, t + i) + (t + i) % j->u->page_tokens * kv_row_bytes(f, j->u->head_dim);
}

// score_tile in integers.
#define score_codes KERNEL(score_codes)
static void score_codes(const struct job *j, int64_t t, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const int64_t d = u->head_dim;
    const uint8_t *strips[TILE / STRIP], *next[TILE / STRIP]; // V of the same positions comes next
    find_strips(j, &u->k, j->k_pages, t, from, to, strips);
    find_strips(j, &u->v, j->v_pages, t, from, to, next);
    k_scores(&u->k, j->codes, j->groups, strips, from / STRIP, (to + 15) / STRIP, j->scores, u->rows * u->group, d, (const char *const *)next,
             STRIP * kv_row_bytes(&u->v, d));
}

// scores = Q Kt for positions [from, to) of the tile at t, rounded out to multiples of 16.
#define score_tile KERNEL(score_tile)
static void score_tile(const struct job *j, int64_t t, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->k;
    if (j->k_integer) {
        score_codes(j, t, from, to);
        return;
    }
    const int64_t d = u->head_dim, p = u->page_tokens, vectors = u->rows * u->group, row = kv_row_bytes(f, d), next_row = kv_row_bytes(&u->v, d);
    from &= ~15;
    to = (to + 15) & ~15;
    for (int64_t i = from, n; i < to; i += n) {
        const int64_t at = (t + i) % p;
        n = p - at < to - i ? p - at : to - i;
        const char *k = head_page(j, f, j->k_pages, t + i) + at * (f->bits ? row : kv_element_bytes((int)f->dtype));
        float *scores = j->scores + i;
        if (j->k_direct) { // V of the same positions comes next
            const char *next = head_page(j, &u->v, j->v_pages, t + i) + at * next_row;
            product((int)f->dtype, j->queries, d, k, p, scores, TILE, vectors, n, d, 0, next);
        } else if (f->bits) {
            for (int64_t s = 0; s < n; s += STRIP) k_read(f, j->tile + i + s, TILE, (const uint8_t *)k + s * row, d);
        } else {
            kv_read((int)f->dtype, j->tile + i, TILE, k, p, d, n);
        }
    }
    if (!j->k_direct) product_f32(j->queries, d, j->tile + from, TILE, j->scores + from, TILE, vectors, to - from, d, 0, (const char *)j->tile);
}

// tile = V of positions [from, to) of the tile at t.
#define read_values KERNEL(read_values)
static void read_values(const struct job *j, int64_t t, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    const int64_t d = u->head_dim, unit = f->bits ? STRIP : u->page_tokens, row = kv_row_bytes(f, d);
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

// part += weights V over positions [from, to) of the tile at t, for count vectors from first on.
#define sum_tile KERNEL(sum_tile)
static void sum_tile(const struct job *j, int64_t t, int64_t from, int64_t to, int64_t first, int64_t count) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    const int64_t d = u->head_dim, p = u->page_tokens, record = record_floats(u), row = kv_row_bytes(f, d), next_row = kv_row_bytes(&u->k, d);
    const float *weights = j->scores + first * TILE;
    float *sums = j->part + first * record;
    if (!j->v_direct) {
        product_f32(weights + from, TILE, j->tile + from * d, d, sums, record, count, d, to - from, 1, (const char *)j->tile);
        return;
    }
    for (int64_t i = from, n; i < to; i += n) { // K of the next tile comes next
        const int64_t at = (t + i) % p;
        n = p - at < to - i ? p - at : to - i;
        const char *v = head_page(j, f, j->v_pages, t + i), *next = head_page(j, &u->k, j->k_pages, t + i + TILE);
        product((int)f->dtype, weights + i, TILE, v + at * row, d, sums, record, count, d, n, 1, next);
    }
}

// Positions [*from, *to) of the tile at t are what the row at pos sees of it: of the sinks, or of what is behind them.
#define seen KERNEL(seen)
SIMD int seen(const struct attention_unit *u, int64_t pos, int64_t t, int sinks, int64_t *from, int64_t *to) {
    const int64_t first = u->window == 0 || pos - u->window + 1 < u->sink_tokens ? u->sink_tokens : pos - u->window + 1;
    const int64_t end = sinks ? u->sink_tokens : TILE;
    *from = !sinks && first > t ? first - t : 0;
    *to = pos + 1 - t < end ? pos + 1 - t : end;
    return *from < *to;
}

// part and middles += weights V in integers, for rows [first, end) of the unit; they see positions of [from, to) of the tile at t.
#define sum_codes KERNEL(sum_codes)
static void sum_codes(const struct job *j, int64_t t, int sinks, int64_t first, int64_t end, int64_t from, int64_t to) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    const int64_t d = u->head_dim, groups = kv_groups(f, d), heads = u->group, record = record_floats(u);
    const uint8_t *strips[TILE / STRIP], *next[TILE / STRIP]; // K of the next tile comes next
    find_strips(j, f, j->v_pages, t, from, to, strips);
    find_strips(j, &u->k, j->k_pages, t + TILE, 0, TILE, next);
    const int64_t next_bytes = STRIP * kv_row_bytes(&u->k, d), share = next_bytes / (groups * (end - first) * heads);
    const float code = (float)(1 << (f->bits - 1));
    int64_t asked = 0, until = 0;
    for (int64_t g = 0; g < groups; g++) {
        struct value_group group;
        int64_t a = 0, b = 0;
        for (int64_t r = first; r < end; r++) {
            const int64_t last_a = a, last_b = b;
            seen(u, u->pos + r, t, sinks, &a, &b);
            if (a == 0 && b == TILE) { // nearly always: the constants unroll its loops
                if (last_a != 0 || last_b != TILE) read_group(&group, f, strips, g, groups, 0, TILE);
            } else if (a != last_a || b != last_b) {
                read_group(&group, f, strips, g, groups, a, b);
            }
            for (int64_t i = r * heads; i < (r + 1) * heads; i++) {
                for (until += share; asked < until; asked += 64)
                    for (int n = 0; n < TILE / STRIP; n++) __builtin_prefetch(next[n] + asked, 0, 2);
                j->steps[i] = round_weights(&group, j->scores + i * TILE, j->units[i], code, j->weights + i * TILE * WEIGHT_BYTES,
                                            j->middles + (i * groups + g) * 16);
            }
        }
        for (int64_t i = g * f->group; i < (g + 1) * f->group; i += 32)
            v_values(f, j->weights + first * heads * TILE * WEIGHT_BYTES, j->steps + first * heads, strips, j->part + first * heads * record, record,
                     (end - first) * heads, d, i, from & ~15, (to + 15) & ~15);
    }
}

// Every vector that sees positions of the tile at t takes them in.
#define do_tile KERNEL(do_tile)
static void do_tile(const struct job *j, int64_t t, int sinks) {
    const struct attention_unit *u = j->u;
    const int64_t d = u->head_dim, group = u->group, end = u->pos + u->rows;
    const int64_t middles = middle_floats(j);
    int64_t from, to, last_from, whole = 0, first = u->rows, last = 0, a, b;
    seen(u, u->pos, t, sinks, &from, &to);
    seen(u, end - 1, t, sinks, &last_from, &to);
    if (from >= to) return;
    score_tile(j, t, from, to);
    for (int64_t r = 0; r < u->rows; r++) {
        if (!seen(u, u->pos + r, t, sinks, &a, &b)) continue;
        for (int64_t g = r * group; g < (r + 1) * group; g++) {
            float *weights = j->scores + g * TILE;
            weigh(weights, a, b, j->part + g * record_floats(u), d, j->middles + g * middles, middles);
            if (j->v_integer) j->units[g] = scale_weights(weights, a, b);
        }
        if (r < first) first = r;
        last = r;
        whole += a == from && b == to;
    }
    if (j->v_integer) { // the rows that see any of it are neighbours
        if (first <= last) sum_codes(j, t, sinks, first, last + 1, from, to);
        return;
    }
    if (!j->v_direct) read_values(j, t, from, to);
    if (whole == u->rows)
        sum_tile(j, t, from, to, 0, u->rows * group);
    else // rows see different parts of it
        for (int64_t r = 0; r < u->rows; r++)
            if (seen(u, u->pos + r, t, sinks, &a, &b)) sum_tile(j, t, a, b, r * group, group);
}

#define reset_record KERNEL(reset_record)
SIMD void reset_record(float *record, int64_t d) {
    for (int64_t i = 0; i < d; i += 16) v_store(record + i, v_zero());
    record[d] = -INFINITY;
    record[d + 1] = 0;
}

#define begin_segment KERNEL(begin_segment)
static void begin_segment(const struct job *j) {
    const struct attention_unit *u = j->u;
    for (int64_t i = 0; i < u->rows * u->group; i++) reset_record(j->part + i * record_floats(u), u->head_dim);
    for (int64_t i = 0; i < u->rows * u->group * middle_floats(j); i += 16) v_store(j->middles + i, v_zero());
}

// The middles go to the sums that they belong to.
#define end_segment KERNEL(end_segment)
static void end_segment(const struct job *j) {
    const struct attention_unit *u = j->u;
    if (!j->v_integer) return;
    for (int64_t i = 0; i < u->rows * u->group; i++)
        for (int64_t g = 0; g < u->head_dim / u->v.group; g++) {
            const f32x16 middle = v_set1(v_sum(v_load(j->middles + i * middle_floats(j) + 16 * g)));
            float *x = j->part + i * record_floats(u) + g * u->v.group;
            for (int64_t c = 0; c < u->v.group; c += 16) v_store(x + c, v_add(v_load(x + c), middle));
        }
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
    const int64_t d = u->head_dim, vectors = u->rows * u->group, record = record_floats(u);
    const int split = part != NULL;
    float *queries = scratch + TILE * d, *scores = queries + vectors * d, *total = scores + vectors * TILE, *more = total + 2 * vectors * record;
    if (!split) part = total + vectors * record;
    struct job j = {.u = u, .k_pages = (const char *)k_pages + u->k_offset, .v_pages = (const char *)v_pages + u->v_offset, .pages = pages,
                    .last = u->pos + u->rows - 1, .queries = queries, .tile = scratch, .scores = scores, .part = part,
                    .k_direct = vectors <= MAX_DIRECT && !u->k.bits, .v_direct = vectors <= MAX_DIRECT && !u->v.bits,
                    .k_integer = u->k.bits && !u->exact, .v_integer = u->v.bits && !u->exact};
    struct attention_unit start_unit = *u; // the same over the pages of the start
    start_unit.k = u->start_k;
    start_unit.v = u->start_v;
    const struct job start = {.u = &start_unit, .k_pages = k_pages, .v_pages = v_pages, .pages = pages,
                              .last = j.last < u->start_tokens ? j.last : u->start_tokens - 1, .queries = queries, .tile = scratch, .scores = scores, .part = part,
                              .k_direct = vectors <= MAX_DIRECT, .v_direct = vectors <= MAX_DIRECT};
    for (int64_t i = 0; i < vectors; i++) {
        const float *x = q + i / u->group * u->q_stride + i % u->group * d;
        for (int64_t c = 0; c < d; c += 16) v_store(queries + i * d + c, v_mul(v_load(x + c), v_set1(u->scale)));
    }
    if (j.k_integer) {
        const int64_t groups = kv_groups(&u->k, d);
        j.codes = (uint8_t *)more;
        j.groups = (struct query_group *)(more + vectors * d / 2);
        more += vectors * (d / 2 + 3 * groups);
        for (int64_t i = 0; i < vectors; i++) round_query(queries + i * d, u->k.group, d, j.codes + i * d * QUERY_BYTES, j.groups + i * groups);
    }
    if (j.v_integer) {
        j.middles = more;
        j.units = j.middles + vectors * middle_floats(&j);
        j.steps = j.units + vectors;
        j.weights = (uint8_t *)(j.steps + vectors);
    }
    if (!split) begin(u, sinks, total);
    if (u->sinks) {
        begin_segment(&j);
        do_tile(&j, 0, 1);
        end_segment(&j);
        if (!split) merge_segment(u, part, total);
    }
    for (int64_t segment = u->from; segment < u->to; segment++) {
        const struct job *part_of = segment * SEGMENT < u->start_tokens ? &start : &j;
        begin_segment(part_of);
        for (int64_t t = segment * SEGMENT; t < (segment + 1) * SEGMENT && t < u->pos + u->rows; t += TILE) do_tile(part_of, t, 0);
        end_segment(part_of);
        if (!split) merge_segment(u, part, total);
    }
    if (!split) finish(u, total, out);
}

static void KERNEL(attention_merge)(const struct attention_unit *u, float *out, const float *sinks, const float *part, float *scratch) {
    begin(u, sinks, scratch);
    for (int64_t s = 0; s < u->sinks + u->to - u->from; s++) merge_segment(u, part + s * u->part_stride, scratch);
    finish(u, scratch, out);
}

#else

#define KERNEL_USES_VNNI
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
