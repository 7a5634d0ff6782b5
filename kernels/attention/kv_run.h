// Decoding on AVX2. A run of tiles is processed together for a few vectors: first all scores, then
// all weights, then the sums. The weights of one tile are a chain of dependent steps: the highest
// score, the exponentials, their sum and maximum, and the rounding. The chains of sixteen rows of
// weights, such as eight tiles for two vectors, overlap. Each number goes through the same
// operations in the same order as tile by tile, so the bits are the same. Included after kv_tile.h.

#define RUN_VECTORS 7 // most vectors; kv_wide.h handles more
#define RUN_ROWS 16   // most rows of weights, as many as v_sums16 adds
#define RUN_GROUPS 16 // most groups of V

// Row i*vectors + r belongs to vector r and tile i.
#define run KERNEL(run)
struct run {
    int64_t t, tiles, end; // positions [t, end); the last tile may be incomplete
    int64_t vectors;
    // The strips of the tiles, and in `next` the strips of K of the tiles after them.
    const uint8_t *k[RUN_ROWS][TILE / STRIP], *v[RUN_ROWS][TILE / STRIP],
        *next[RUN_ROWS][TILE / STRIP];
    float weights[RUN_ROWS][TILE]; // scores at first
    float before[RUN_ROWS], highest[RUN_ROWS], scales[RUN_ROWS], units[RUN_ROWS];
};

// Sets lanes [n, 16) of x to zero.
#define first_lanes KERNEL(first_lanes)
SIMD f32x16 first_lanes(f32x16 x, int64_t n) {
    static const int32_t ones[32] = {
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const float *mask = (const float *)ones + (n < 0 ? 16 : n > 16 ? 0 : 16 - n);
    return (f32x16){
        _mm256_and_ps(x.a, _mm256_loadu_ps(mask)), _mm256_and_ps(x.b, _mm256_loadu_ps(mask + 8))};
}

// Returns how many tiles from t on to process together. In each of these tiles, all rows see the
// same positions, beginning with the tile's first one. 0 means that do_tile must process the first
// tile.
#define run_tiles KERNEL(run_tiles)
static int64_t run_tiles(const struct job *j, int64_t t, int64_t end) {
    const struct attention_unit *u = j->u;
    const int64_t vectors = u->rows * u->group, tiles = (end - t + TILE - 1) / TILE;
    int64_t from, to;
    if (!j->k_integer || !j->v_integer || vectors > RUN_VECTORS ||
        kv_groups(&u->v, u->head_dim) > RUN_GROUPS || u->following)
        return 0;
    if (!seen(u, j->last, t, 0, &from, &to) || from > 0) return 0;
    const int64_t whole = u->rows == 1 ? tiles : (u->pos + 1 - t) / TILE;
    return whole * vectors < RUN_ROWS ? whole : RUN_ROWS / vectors;
}

// Finds the strips of the run, and the strips of K that are read next. After the last tile of a
// unit these are the strips that next_strips finds.
#define open_run KERNEL(open_run)
static void open_run(const struct job *j, struct run *x, int64_t unit_end) {
    const struct attention_unit *u = j->u;
    int64_t t = x->end, head = u->kv_head;
    find_strips(j, &u->k, j->k_pages, head, x->t, 0, x->end - x->t, x->k[0]);
    find_strips(j, &u->v, j->v_pages, head, x->t, 0, x->end - x->t, x->v[0]);
    if (t >= unit_end) {
        head = head + 1 < u->kv_heads ? head + 1 : 0;
        t = (head ? u->from : u->to) * SEGMENT;
    }
    find_strips(j, &u->k, j->k_pages, head, t, 0, x->tiles * TILE, x->next[0]);
}

#define score_run KERNEL(score_run)
static void score_run(const struct job *j, struct run *x) {
    const struct attention_unit *u = j->u;
    // V of the same positions is read next.
    const int64_t next_bytes = STRIP * kv_row_bytes(&u->v, u->head_dim);
    for (int64_t i = 0; i < x->tiles; i++) {
        const int64_t seen = x->end - x->t - i * TILE, to = seen < TILE ? seen : TILE;
        float *scores = x->weights[i * x->vectors];
        k_scores(&u->k, j->codes, j->groups, x->k[i], 0, (to + STRIP - 1) / STRIP, scores,
            x->vectors, u->head_dim, (const char *const *)x->v[i], next_bytes);
        if (u->cap != 0) cap_scores(u->cap, scores, x->vectors, 0, (to + STRIP - 1) & ~15);
        for (int64_t r = 0; r < x->vectors; r++)
            for (int64_t c = to; c < TILE; c++) scores[r * TILE + c] = -INFINITY;
    }
}

// Computes the highest score of each row so far.
#define highest_of_run KERNEL(highest_of_run)
SIMD void highest_of_run(const struct job *j, struct run *x) {
    const int64_t d = j->u->head_dim, record = record_floats(j->u), rows = x->tiles * x->vectors;
    f32x16 tops[RUN_ROWS];
    float top[RUN_ROWS];
    for (int64_t r = 0; r < rows; r++) {
        f32x16 highest = v_load(x->weights[r]);
#pragma GCC unroll 3
        for (int i = 16; i < TILE; i += 16) highest = v_max(highest, v_load(x->weights[r] + i));
        tops[r] = highest;
    }
    each_hmax(tops, rows, top);
    for (int64_t r = 0; r < RUN_ROWS; r++) {
        if (r >= rows) {
            x->before[r] = x->highest[r] = 0;
            continue;
        }
        x->before[r] = r < x->vectors ? j->part[r * record + d] : x->highest[r - x->vectors];
        x->highest[r] = x->before[r] > top[r] ? x->before[r] : top[r];
    }
}

// Turns scores into weights, scales them for integer products, and adds the sums of weights to the
// records. rescale_tile later rescales the records' sums of V.
#define weigh_run KERNEL(weigh_run)
static void weigh_run(const struct job *j, struct run *x) {
    const int64_t d = j->u->head_dim, record = record_floats(j->u), rows = x->tiles * x->vectors,
                  last = x->end - x->t - (x->tiles - 1) * TILE;
    f32x16 sums[RUN_ROWS], tops[RUN_ROWS];
    float sum[RUN_ROWS], top[RUN_ROWS], factors[RUN_ROWS];
    highest_of_run(j, x);
    for (int64_t r = 0; r < rows; r++) {
        float *w = x->weights[r];
        f32x16 e[TILE / 16];
#pragma GCC unroll 4
        for (int i = 0; i < TILE / 16; i++)
            v_store(w + 16 * i, e[i] = v_exp(v_sub(v_load(w + 16 * i), v_set1(x->highest[r]))));
        if (last < TILE && r >= rows - x->vectors)
            for (int i = 0; i < TILE / 16; i++)
                v_store(w + 16 * i, e[i] = first_lanes(e[i], last - 16 * i));
        f32x16 total = v_zero(), highest = v_zero();
#pragma GCC unroll 4
        for (int i = 0; i < TILE / 16; i++)
            total = v_add(total, e[i]), highest = v_max(highest, e[i]);
        sums[r] = total, tops[r] = highest;
    }
    each_sum(sums, rows, sum);
    each_hmax(tops, rows, top);
    v_store(x->scales, v_exp(v_sub(v_load(x->before), v_load(x->highest))));
    for (int64_t r = 0; r < rows; r++) {
        float *p = j->part + r % x->vectors * record + d;
        p[0] = x->highest[r];
        p[1] = x->highest[r] == x->before[r] ? p[1] + sum[r] : p[1] * x->scales[r] + sum[r];
    }
    weights_units(top, rows, factors, x->units);
    for (int64_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i += 16)
            v_store(x->weights[r] + i, v_mul(v_load(x->weights[r] + i), v_set1(factors[r])));
}

// Rescales the sums and middles of all tiles before tile i to the highest score of tile i.
#define rescale_tile KERNEL(rescale_tile)
SIMD void rescale_tile(const struct job *j, const struct run *x, int64_t i) {
    const int64_t n = middle_floats(j);
    for (int64_t r = 0; r < x->vectors; r++) {
        const int64_t row = i * x->vectors + r;
        if (x->highest[row] == x->before[row]) continue;
        rescale(j->part + r * record_floats(j->u), j->u->head_dim, x->scales[row]);
        rescale(j->middles + r * n, n, x->scales[row]);
    }
}

// Does what read_group does, for all groups and positions [0, to) of a tile, but does not multiply
// the scales by the inverses of the tops. It returns these factors in `inverses`.
#define read_groups KERNEL(read_groups)
SIMD void read_groups(struct value_group *out, float *inverses, const struct kv_format *f,
    const uint8_t *const *strips, int64_t groups, int64_t to) {
    const f32x16 code = v_set1((float)(1 << (f->bits - 1))), sign = v_set1(-0.0f);
    f32x16 tops[RUN_GROUPS];
    float top[RUN_GROUPS];
    for (int64_t g = 0; g < groups; g++) {
        f32x16 highest = v_zero();
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i += STRIP) {
            f32x16 s = v_zero(), middle = s;
            if (i < to) {
                s = kv_scale(strips[i / STRIP], g);
                middle = v_fma(code, s, kv_bias(strips[i / STRIP], g, groups, f->zero, s));
            }
            if (i < to && to < i + STRIP)
                s = first_lanes(s, to - i), middle = first_lanes(middle, to - i);
            v_store(out[g].scale + i, s);
            v_store(out[g].middle + i, middle);
            highest.a = KERNEL(higher)(highest.a, _mm256_andnot_ps(sign.a, s.a));
            highest.b = KERNEL(higher)(highest.b, _mm256_andnot_ps(sign.b, s.b));
        }
        tops[g] = highest;
    }
    for (int64_t g = groups; g < RUN_GROUPS; g++) tops[g] = v_zero();
    for (int64_t g = 0; g < groups; g += 8) _mm256_storeu_ps(top + g, KERNEL(highest8)(tops + g));
    for (int64_t g = 0; g < groups; g++) {
        out[g].top = top[g] < INFINITY ? top[g] : NAN;
        inverses[g] = top[g] > 0 && top[g] < INFINITY ? 1.0f / top[g] : 0;
    }
}

// Does what round_weights does, for R consecutive vectors and a group that read_groups read. The
// middles of the vectors are stride floats apart.
#define round_group KERNEL(round_group)
SIMD void round_group(const int R, const struct value_group *group, float inverse, const float *w,
    const float *units, float code, uint8_t *weights, float *middle, int64_t stride, float *steps) {
    const __m256i zero = _mm256_castps_si256(_mm256_set1_ps(V_ROUNDER));
    f32x16 sum[2];
    __m256i a[2], b[2];
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) sum[r] = v_zero(), a[r] = b[r] = l_zero();
#pragma GCC unroll 4
    for (int i = 0; i < TILE; i += 16) {
        const f32x16 scale = v_mul(v_load(group->scale + i), v_set1(inverse)),
                     mid = v_load(group->middle + i);
#pragma GCC unroll 2
        for (int r = 0; r < R; r++) {
            const f32x16 x = v_load(w + r * TILE + i), y = v_fma(x, scale, v_set1(V_ROUNDER));
            const __m256i low = _mm256_sub_epi32(_mm256_castps_si256(y.a), zero),
                          high = _mm256_sub_epi32(_mm256_castps_si256(y.b), zero);
            sum[r] = v_fma(x, mid, sum[r]);
            _mm256_storeu_si256((__m256i *)(weights + (r * TILE + i) * WEIGHT_BYTES),
                _mm256_packs_epi32(low, high));
            a[r] = _mm256_add_epi32(a[r], low), b[r] = _mm256_add_epi32(b[r], high);
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
        const f32x16 count = {_mm256_cvtepi32_ps(a[r]), _mm256_cvtepi32_ps(b[r])}; // exact
        float *m = middle + r * stride;
        v_store(m,
            v_fma(v_fma(count, v_set1(-code * group->top), sum[r]), v_set1(units[r]), v_load(m)));
        steps[r] = units[r] * group->top;
    }
}

// Adds the products of weights and V of tile i to part and middles.
#define sum_run KERNEL(sum_run)
static void sum_run(const struct job *j, const struct run *x, int64_t i) {
    const struct attention_unit *u = j->u;
    const struct kv_format *f = &u->v;
    const int64_t d = u->head_dim, groups = kv_groups(f, d), vectors = x->vectors,
                  seen = x->end - x->t - i * TILE, to = seen < TILE ? seen : TILE;
    const int64_t step = (STRIP * kv_row_bytes(&u->k, d) * 32 / d + 63) & ~(int64_t)63;
    uint8_t weights[RUN_GROUPS * RUN_VECTORS][TILE * WEIGHT_BYTES] __attribute__((aligned(32)));
    float steps[RUN_GROUPS * RUN_VECTORS], inverses[RUN_GROUPS];
    rescale_tile(j, x, i);
    read_groups(j->whole, inverses, f, x->v[i], groups, to);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t r = 0; r < vectors; r += 2) {
            const int64_t row = i * vectors + r, at = g * vectors + r;
#define ROUND(R) \
    round_group(R, &j->whole[g], inverses[g], x->weights[row], x->units + row, \
        (float)(1 << (f->bits - 1)), weights[at], j->middles + (r * groups + g) * 16, 16 * groups, \
        steps + at)
            if (r + 1 < vectors)
                ROUND(2);
            else
                ROUND(1);
#undef ROUND
        }
    v_values(f, weights[0], steps, x->v[i], j->part, record_floats(u), vectors, d, 0, groups, 0,
        (to + 15) & ~15, x->next[i], step);
}

// Adds `tiles` tiles, beginning with the one at t, to the records of all vectors. `end` is the end
// of the unit's positions.
#define do_run KERNEL(do_run)
static void do_run(const struct job *j, int64_t t, int64_t tiles, int64_t end) {
    struct run x; // not cleared, which would take as long as the exponentials of a tile
    x.t = t, x.tiles = tiles, x.end = t + tiles * TILE < end ? t + tiles * TILE : end,
    x.vectors = j->u->rows * j->u->group;
    open_run(j, &x, end);
    score_run(j, &x);
    weigh_run(j, &x);
    for (int64_t i = 0; i < tiles; i++) sum_run(j, &x, i);
}
