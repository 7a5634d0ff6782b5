// The observed queries of a selection (select.go): the softmax of their scores, without values.
// Keys are read as float32, also quantized ones. Included once per instruction set, after
// kv_tile.h.

// Computes the scores of the tile at t, up to the last row's position.
#define observe_tile KERNEL(observe_tile)
static void observe_tile(const struct job *j, int64_t t, int64_t to) {
    const struct attention_unit *u = j->u;
    score_tile(j, t, 0, to);
    if (u->cap != 0) cap_scores(u->cap, j->scores, u->rows * u->group, 0, (to + 15) & ~15);
}

// Replaces n scores by weights e^(score - highest) * inverse, and adds them to sums.
#define add_weights KERNEL(add_weights)
SIMD void add_weights(const float *s, int64_t n, float highest, float inverse, float *sums) {
    float last[16];
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const f32x16 w =
            v_mul(v_exp(v_sub(v_load(s + i), v_set1(highest))), v_set1(inverse));
        v_store(sums + i, v_add(v_load(sums + i), w));
    }
    if (i == n) return;
    v_store(last, v_mul(v_exp(v_sub(v_load(s + i), v_set1(highest))), v_set1(inverse)));
    for (int64_t k = 0; i + k < n; k++) sums[i + k] += last[k];
}

// headroom_attention_observe for one instruction set.
static void KERNEL(attention_observe)(const struct attention_unit *u, const float *q,
    const void *k_pages, const int32_t *pages, float *scratch, float *records, float *sums) {
    const int64_t d = u->head_dim, vectors = u->rows * u->group, segment = u->from * SEGMENT;
    struct attention_unit unit = *u;
    struct job j = {.u = &unit,
        .k_pages = (const char *)k_pages + u->k_offset,
        .pages = pages,
        .last = u->pos + u->rows - 1,
        .tile = scratch,
        .queries = scratch + TILE * d,
        .scores = scratch + TILE * d + vectors * d,
        .block = vectors};
    if (segment < u->start_tokens) {
        unit.k = u->start_k;
        j.k_pages = k_pages;
        if (j.last >= u->start_tokens) j.last = u->start_tokens - 1;
    }
    float *queries = scratch + TILE * d;
    for (int64_t i = 0; i < vectors; i++) {
        const float *x = q + i / u->group * u->q_stride + i % u->group * d;
        for (int64_t c = 0; c < d; c += 16)
            v_store(queries + i * d + c, v_mul(v_load(x + c), v_set1(u->scale)));
    }
    for (int64_t t = segment; t < segment + SEGMENT && t < u->pos + u->rows; t += TILE) {
        const int64_t seen = u->pos + u->rows - t, to = seen < TILE ? seen : TILE;
        observe_tile(&j, t, to);
        for (int64_t i = 0; i < vectors; i++) {
            const int64_t own = u->pos + i / u->group + 1 - t, n = own < to ? own : to;
            if (n <= 0) continue;
            if (sums)
                add_weights(j.scores + i * TILE, n, records[2 * i], records[2 * i + 1],
                    sums + t - segment);
            else
                weigh(j.scores + i * TILE, 0, n, records + 2 * i, 0, NULL, 0);
        }
    }
}
