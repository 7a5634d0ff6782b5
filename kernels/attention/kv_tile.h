// One tile of positions with quantized K or V: scores, weights and sums of all vectors, with
// integer products (kv_dot.h, kv_amx.h). If both are quantized, sixteen vectors at a time go
// through all three steps, so that their data stays in the L1 cache. Included once per instruction
// set, after kv_softmax.h.

#define record_floats(u) ((u)->value_dim + 16)

// A unit of work and its memory.
#define job KERNEL(job)
struct job {
    const struct attention_unit *u;
    const char *k_pages, *v_pages;
    const int32_t *pages;
    int64_t last, last_page;    // last position, and the index of its page
    const float *queries;
    float *tile, *scores, *part;
    int k_direct, v_direct;     // multiply plain elements in the pages, without a tile
    int k_integer, v_integer;   // multiply codes
    int64_t block;              // vectors at a time; scores, steps, units and weights are for them
    uint8_t *codes;             // if k_integer: the rounded queries, with their groups
    struct query_group *groups;
    // If v_integer: the terms of the sums that do not depend on codes (round_weights), added up
    // since the start of the segment, 16 lanes per group.
    float *middles;
    float *units, *steps;       // value of one step of the weights, before and after round_weights
    uint8_t *weights;
    struct value_group *whole;  // the groups of V for vectors that see the whole tile
    // For the matrix unit, else null: the unpacked codes of K and V.
    uint8_t *k_room;
    uint8_t (*v_room)[16][64];
    uint8_t *k_wide, *v_wide;   // AVX2 with many vectors: codes widened to 16 bits (kv_wide.h)
};

// A view of the tile at t: the part [from, to) that any row sees, and its strips.
#define tile_view KERNEL(tile_view)
struct tile_view {
    int64_t t, from, to;
    int sinks;
    int64_t whole_from, whole_to; // vectors that see all TILE positions
    // Strips of K and V of this tile, and in `next` the strips of K that are read after it.
    const uint8_t *k[TILE / STRIP], *v[TILE / STRIP], *next[TILE / STRIP];
    const uint8_t *codes[TILE / STRIP]; // operands of K for the matrix unit
    int64_t asked, until;               // bytes of `next` prefetched so far, and due by now
};

// Returns the number of floats of middles per vector.
#define middle_floats KERNEL(middle_floats)
SIMD int64_t middle_floats(const struct job *j) {
    return j->v_integer ? 16 * kv_groups(&j->u->v, j->u->head_dim) : 0;
}

// Returns K or V of this KV head in the page that holds pos. f is the format of pages. A position
// after the last one counts as the last.
#define head_page KERNEL(head_page)
SIMD const char *head_page(
    const struct job *j, const struct kv_format *f, const char *pages, int64_t pos) {
    const struct attention_unit *u = j->u;
    const int64_t page = j->pages[(pos < j->last ? pos : j->last) / u->page_tokens];
    return pages +
        (page * u->kv_heads + u->kv_head) * u->page_tokens * kv_row_bytes(f, u->head_dim);
}

// Finds the strips of a KV head that hold positions [from, to) of the tile at t. Positions after
// the last page map to the last page.
#define find_strips KERNEL(find_strips)
SIMD void find_strips(const struct job *j, const struct kv_format *f, const char *pages,
    int64_t head, int64_t t, int64_t from, int64_t to, const uint8_t **strips) {
    const struct attention_unit *u = j->u;
    const int64_t row = kv_row_bytes(f, u->head_dim);
    int64_t page = (t + (from & ~15)) / u->page_tokens, at = (t + (from & ~15)) % u->page_tokens;
    for (int64_t i = from & ~15; i < to; i += STRIP, at += STRIP) {
        if (at == u->page_tokens) at = 0, page++;
        const int64_t number = j->pages[page < j->last_page ? page : j->last_page];
        strips[i / STRIP] = (const uint8_t *)pages +
            ((number * u->kv_heads + head) * u->page_tokens + at) * row;
    }
}

// Finds the strips of K that are read after those of the tile at t. After the last tile of a unit
// they belong to the unit that the same thread usually computes next: that of the next head, or of
// the first head in the next segment.
#define next_strips KERNEL(next_strips)
SIMD void next_strips(const struct job *j, int64_t t, const uint8_t **strips) {
    const struct attention_unit *u = j->u;
    int64_t head = u->kv_head;
    t += TILE;
    if (t >= u->to * SEGMENT || t > j->last) {
        head = head + 1 < u->kv_heads ? head + 1 : 0;
        t = (head ? u->from : u->to) * SEGMENT;
    }
    find_strips(j, &u->k, j->k_pages, head, t, 0, TILE, strips);
}

// Returns the position after the last one that the row at pos sees.
#define seen_to KERNEL(seen_to)
SIMD int64_t seen_to(const struct attention_unit *u, int64_t pos) {
    return pos + 1 + u->following < u->end ? pos + 1 + u->following : u->end;
}

// Computes the positions [*from, *to) of the tile at t that the row at pos sees, either of the sink
// tokens or of the positions after them. Returns whether there are any.
#define seen KERNEL(seen)
SIMD int seen(
    const struct attention_unit *u, int64_t pos, int64_t t, int sinks, int64_t *from, int64_t *to) {
    const int64_t first = u->window == 0 || pos - u->window + 1 < u->sink_tokens
        ? u->sink_tokens
        : pos - u->window + 1;
    const int64_t end = sinks ? u->sink_tokens : TILE;
    *from = !sinks && first > t ? first - t : 0;
    const int64_t past = seen_to(u, pos) - t;
    *to = past < end ? past : end;
    return *from < *to;
}

// Computes which part of the tile at t the rows see. Returns whether they see any of it.
#define view_tile KERNEL(view_tile)
SIMD int view_tile(const struct attention_unit *u, int64_t t, int sinks, struct tile_view *v) {
    int64_t from, to;
    v->t = t, v->sinks = sinks;
    v->whole_from = v->whole_to = v->asked = v->until = 0;
    seen(u, u->pos, t, sinks, &v->from, &to);
    seen(u, u->pos + u->rows - 1, t, sinks, &from, &v->to);
    if (v->from >= v->to) return 0;
    for (int64_t r = 0; r < u->rows; r++)
        if (seen(u, u->pos + r, t, sinks, &from, &to) && from == 0 && to == TILE) {
            if (v->whole_to == 0) v->whole_from = r * u->group;
            v->whole_to = (r + 1) * u->group;
        }
    return 1;
}

// Finds the strips of the tile, and unpacks K for the matrix unit or for kv_wide.h.
#define open_tile KERNEL(open_tile)
static void open_tile(const struct job *j, struct tile_view *v) {
    const struct attention_unit *u = j->u;
    const int64_t d = u->head_dim;
    if (j->k_integer) find_strips(j, &u->k, j->k_pages, u->kv_head, v->t, v->from, v->to, v->k);
    find_strips(j, &u->v, j->v_pages, u->kv_head, v->t, v->from, v->to, v->v);
    next_strips(j, v->t, v->next);
#ifdef MATRIX_UNIT
    const int64_t from = v->from / STRIP, to = (v->to + 15) / STRIP;
    if (j->k_room && j->k_integer)
        for (int64_t s = from; s < to; s++)
            v->codes[s] = KERNEL(k_matrix)(&u->k, v->k[s], d, j->k_room + s * STRIP * d);
#endif
#if ISA == ISA_AVX2
    if (j->k_wide && j->k_integer)
        for (int64_t s = v->from / STRIP; s < (v->to + 15) / STRIP; s++)
            KERNEL(k_wide)(&u->k, v->k[s], d, j->k_wide + s * d / 2 * WIDE_ROW);
#endif
}

// Reads the groups of V for all vectors, and unpacks V for the matrix unit or for kv_wide.h. It
// runs after the first scores, which have prefetched V.
#define open_values KERNEL(open_values)
static void open_values(const struct job *j, const struct tile_view *v) {
    const struct attention_unit *u = j->u;
    const int64_t d = u->head_dim;
    if (v->from == 0 && v->to == TILE)
        for (int64_t g = 0; g < kv_groups(&u->v, d); g++)
            read_group(&j->whole[g], &u->v, v->v, g, kv_groups(&u->v, d), 0, TILE);
#ifdef MATRIX_UNIT
    if (j->v_room)
        KERNEL(v_matrix)(&u->v, v->v, v->from / STRIP, (v->to + 15) / STRIP, d, j->v_room);
#endif
#if ISA == ISA_AVX2
    if (j->v_wide)
        for (int64_t s = v->from / STRIP; s < (v->to + 15) / STRIP; s++)
            KERNEL(v_wide)(&u->v, v->v[s], d, j->v_wide + s * STRIP / 2 * WIDE_ROW);
#endif
}

// Computes the scores of vectors [first, first + count).
#define score_codes KERNEL(score_codes)
static void score_codes(
    const struct job *j, const struct tile_view *v, int64_t first, int64_t count) {
    const struct attention_unit *u = j->u;
    const int64_t d = u->head_dim, from = v->from / STRIP, to = (v->to + 15) / STRIP;
    const uint8_t *codes = j->codes + first * d * QUERY_BYTES;
    const struct query_group *groups = j->groups + first * kv_groups(&u->k, d);
#ifdef MATRIX_UNIT
    if (j->k_room) {
        for (int64_t r = 0; r < count; r += MATRIX_ROWS)
            KERNEL(k_scores_matrix)(&u->k, codes + r * d, groups + r * kv_groups(&u->k, d), v->k,
                v->codes, from, to, j->scores + r * TILE,
                count - r < MATRIX_ROWS ? count - r : MATRIX_ROWS, d);
        return;
    }
#endif
    // V of the same positions is read next.
    const int64_t next_bytes = first ? 0 : STRIP * kv_row_bytes(&u->v, d);
#if ISA == ISA_AVX2
    if (j->k_wide) {
        KERNEL(k_scores_wide)(
            &u->k, codes, groups, v->k, j->k_wide, from, to, j->scores, count, d, v->v, next_bytes);
        return;
    }
#endif
    k_scores(&u->k, codes, groups, v->k, from, to, j->scores, count, d, (const char *const *)v->v,
        next_bytes);
}

// Returns how many of the vectors i, i+1, ... see the whole tile, at most n.
#define whole_vectors KERNEL(whole_vectors)
SIMD int64_t whole_vectors(const struct tile_view *v, int64_t i, int64_t n) {
    if (i < v->whole_from || i >= v->whole_to) return 0;
    return v->whole_to - i < n ? v->whole_to - i : n;
}

// Turns scores into weights and updates the records. Returns the number of vectors that see any of
// the tile, and in *begin the first one. These vectors are consecutive.
#define weigh_block KERNEL(weigh_block)
static int64_t weigh_block(
    const struct job *j, const struct tile_view *v, int64_t first, int64_t count, int64_t *begin) {
    const struct attention_unit *u = j->u;
    const int64_t d = u->value_dim, record = record_floats(u), middles = middle_floats(j);
    int64_t seeing = 0;
    *begin = 0;
    for (int64_t i = 0, n; i < count; i += n) {
        float *scores = j->scores + i * TILE, *records = j->part + (first + i) * record,
              *middle = j->middles + (first + i) * middles;
        float *units = j->v_integer ? j->units + i : NULL;
        int64_t a, b;
        n = whole_vectors(v, first + i, count - i < WEIGH_AT_ONCE ? count - i : WEIGH_AT_ONCE);
        if (n > 0) {
            weigh_whole(scores, n, records, record, d, middle, middles, units);
        } else {
            n = 1;
            if (!seen(u, u->pos + (first + i) / u->group, v->t, v->sinks, &a, &b)) continue;
            weigh(scores, a, b, records, d, middle, middles);
            if (units) *units = scale_weights(scores, a, b);
        }
        if (seeing == 0) *begin = i;
        seeing += n;
    }
    return seeing;
}

// Prefetches a share of K of the next tile.
#define fetch_next KERNEL(fetch_next)
SIMD void fetch_next(struct tile_view *v, int64_t share, int64_t bytes) {
    for (v->until += share; v->asked < v->until && v->asked < bytes; v->asked += 64)
        for (int n = 0; n < TILE / STRIP; n++) __builtin_prefetch(v->next[n] + v->asked, 0, 2);
}

// Rounds the weights of vectors [i, i + count) for `group`, which is group g of `groups`.
#define round_rows KERNEL(round_rows)
SIMD void round_rows(const struct job *j, const struct value_group *group, const int matrix,
    int64_t first, int64_t i, int64_t count, int64_t g, int64_t groups) {
    const float code = (float)(1 << (j->u->v.bits - 1)), *units = j->units + i,
                *w = j->scores + i * TILE;
    uint8_t *weights = j->weights + i * TILE * WEIGHT_BYTES;
    float *middle = j->middles + ((first + i) * groups + g) * 16, *steps = j->steps + i;
    for (; count > 0; count--, w += TILE, weights += TILE * WEIGHT_BYTES, middle += 16 * groups)
        *steps++ = round_weights(group, w, *units++, code, matrix, weights, middle);
}

// Rounds the weights of `count` vectors for group g of V, which has `groups` groups.
#define round_block KERNEL(round_block)
static void round_block(const struct job *j, struct tile_view *v, int64_t first, int64_t begin,
    int64_t count, int64_t g, int64_t groups) {
    const struct attention_unit *u = j->u;
    struct value_group own;
    int64_t own_from = 0, own_to = 0;
    for (int64_t i = begin, n; i < begin + count; i += n) {
        const struct value_group *group = &j->whole[g];
        n = whole_vectors(v, first + i, begin + count - i);
        if (n == 0) {
            int64_t a, b;
            n = 1;
            seen(u, u->pos + (first + i) / u->group, v->t, v->sinks, &a, &b);
            if (a != own_from || b != own_to)
                read_group(&own, &u->v, v->v, g, groups, own_from = a, own_to = b);
            group = &own;
        }
        if (j->v_room)
            round_rows(j, group, 1, first, i, n, g, groups);
        else
            round_rows(j, group, 0, first, i, n, g, groups);
    }
}

// Adds the products of weights and V, in integers, to part and middles, for vectors that see any of
// the tile.
#define sum_codes KERNEL(sum_codes)
static void sum_codes(
    const struct job *j, struct tile_view *v, int64_t first, int64_t begin, int64_t count) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    const int64_t d = u->head_dim, groups = kv_groups(f, d), record = record_floats(u);
    const int64_t next_bytes = STRIP * kv_row_bytes(&u->k, d),
                  share = next_bytes * count / (groups * u->rows * u->group) + 1;
    const uint8_t *weights = j->weights + begin * TILE * WEIGHT_BYTES;
    float *part = j->part + (first + begin) * record;
    // On AVX2 with few vectors v_values prefetches K between its products, instead of fetch_next.
    const int64_t spread = LANES == 8 && !j->v_wide ? (next_bytes * 32 / d + 63) & ~(int64_t)63 : 0;
    for (int64_t g = 0; g < groups; g++) {
        if (!spread) fetch_next(v, share, next_bytes);
        round_block(j, v, first, begin, count, g, groups);
#ifdef MATRIX_UNIT
        if (j->v_room) {
            const uint8_t(*codes)[16][64] = (const uint8_t(*)[16][64])j->v_room + g * f->group / 16;
            for (int64_t r = 0; r < count; r += MATRIX_ROWS)
                KERNEL(v_values_matrix)(codes, f->group, weights + r * TILE * WEIGHT_BYTES,
                    j->steps + begin + r, part + r * record + g * f->group, record,
                    count - r < MATRIX_ROWS ? count - r : MATRIX_ROWS);
            continue;
        }
#endif
#if ISA == ISA_AVX2
        if (j->v_wide) {
            KERNEL(v_values_wide)(j->v_wide + g * f->group / 16 * (TILE / 2) * WIDE_ROW, f->group,
                weights, j->steps + begin, part + g * f->group, record, count, v->from & ~15,
                (v->to + 15) & ~15);
            continue;
        }
#endif
        v_values(f, weights, j->steps + begin, v->v, part, record, count, d, g * f->group, 1,
            v->from & ~15, (v->to + 15) & ~15, v->next, spread);
    }
}
