// Multiplies a panel of weights with a block of activations, eight rows of activations at a time.
// It first computes the integer sums of a batch of units, in memory, then scales them. Included by
// int8_panel.h. AVX2 has int8_tile_avx2.h instead.

#define panel_tile KERNEL(panel_tile)

// Intermediate results of a panel and a block of activations. They fit the first-level cache
// together with the operands only if they are small: batches of eight units were slower.
#define tile KERNEL(tile)
#define unit_sums KERNEL(unit_sums)
typedef lanes unit_sums[PACK_ROWS][2];
typedef struct {
    // Sums of the products of a batch's units. In memory, because compilers otherwise run out of
    // registers.
    unit_sums sums[4];
    // Accumulators of a remainder with more than four units.
    float acc[4][PACK_ROWS][2][LANES];
    // Sums of accumulators: of remainders 0 and 2, then of 1 and 3.
    float total[2][PACK_ROWS][2][LANES];
} __attribute__((aligned(64))) tile;

// The scales and biases of a batch's units.
#define batch_scales KERNEL(batch_scales)
typedef struct {
    lanesf scale[4][2], bias[4][2];
} batch_scales;
SIMD batch_scales KERNEL(scales_of)(const panel *p, const batch *b, const int k, const int affine) {
    batch_scales s;
#pragma GCC unroll 4
    for (int j = 0; j < k; j++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            s.scale[j][v] = lf_load(p->scales + (b->at + j) * PANEL_ROWS + v * LANES);
            s.bias[j][v] = affine ? lf_load(p->biases + (b->at + j) * PANEL_ROWS + v * LANES)
                                  : lf_set1(-E2M1_OFFSET);
        }
    return s;
}

// Adds rows [from, to) of a batch of k units to their accumulators, which are zero before the first
// batch of a remainder. After the last, adds the accumulators to each other as v_sum does.
SIMD void KERNEL(fold)(tile *t, const inputs *x, const batch *b, const int k, const int affine,
                       const batch_scales *s, const unit_sums *sums, int from, int to) {
    const float *params = x->params + b->at * 2 * PACK_ROWS;
#pragma GCC unroll 1
    for (int m = from; m < to; m++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            lanesf a[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                a[j] = b->first ? lf_set1(0) : lf_load(t->acc[j][m][v]);
                if (j >= k) continue;
                const lanesf one = lf_set1(params[2 * j * PACK_ROWS + m]),
                             sum = lf_set1(params[(2 * j + 1) * PACK_ROWS + m]);
                const lanesf dot = lf_of(sums[j][m][v]), both = lf_mul(s->scale[j][v], one);
                a[j] = affine ? lf_fma(s->bias[j][v], sum, lf_fma(dot, both, a[j]))
                              : lf_fma(lf_fma(s->bias[j][v], sum, dot), both, a[j]);
            }
            if (!b->last) {
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++) lf_store(t->acc[j][m][v], a[j]);
                continue;
            }
            lanesf all = lf_add(lf_add(a[0], a[2]), lf_add(a[1], a[3]));
            // Otherwise the next tile's stores would wait for these lines.
            if (b->remainder == v) __builtin_prefetch(x->out[m] + v * LANES, 1);
            if (b->remainder & 1) all = lf_add(lf_load(t->total[b->remainder / 2][m][v]), all);
            if (b->remainder == 3) all = lf_add(lf_load(t->total[0][m][v]), all);
            lf_store(b->remainder == 3 && x->whole ? x->out[m] + v * LANES
                                                   : t->total[b->remainder / 2][m][v],
                     all);
        }
}

#define FOLD(k, affine) \
    static void KERNEL(fold_##k##_##affine)(tile * t, const panel *p, const inputs *x, \
                                            const batch *b, const unit_sums *sums) { \
        const batch_scales s = KERNEL(scales_of)(p, b, k, affine); \
        KERNEL(fold)(t, x, b, k, affine, &s, sums, 0, x->count); \
    }
FOLD(0, 0)
FOLD(1, 0)
FOLD(2, 0) FOLD(3, 0) FOLD(4, 0) FOLD(1, 1) FOLD(2, 1) FOLD(3, 1) FOLD(4, 1)
#undef FOLD
    typedef void KERNEL(fold_function)(tile *t, const panel *p, const inputs *x, const batch *b,
                                       const unit_sums *sums);
static void KERNEL(fold_batch)(tile *t, const panel *p, const inputs *x, const batch *b,
                               const unit_sums *sums) {
    static KERNEL(fold_function) *const folds[2][5] = {
        {KERNEL(fold_0_0), KERNEL(fold_1_0), KERNEL(fold_2_0), KERNEL(fold_3_0), KERNEL(fold_4_0)},
        {KERNEL(fold_0_0), KERNEL(fold_1_1), KERNEL(fold_2_1), KERNEL(fold_3_1), KERNEL(fold_4_1)},
    };
    folds[p->biases != NULL][b->k](t, p, x, b, sums);
}

// Stores the outputs of a panel that is not whole, after all batches are folded.
SIMD void KERNEL(tile_out)(const tile *t, const panel *p, const inputs *x) {
    for (int m = 0; !x->whole && m < x->count; m++)
        memcpy(x->out[m], t->total[1][m], (size_t)p->n * 4);
}

// Sets sums to the products of a batch, PANEL_INPUTS rows at a time.
typedef void KERNEL(unit_function)(const uint8_t *codes, const int8_t *q, lanes (*sums)[2]);
SIMD void KERNEL(products)(const panel *p, const inputs *x, const batch *b, const int unit,
                           KERNEL(unit_function) * half, KERNEL(unit_function) * full,
                           unit_sums *sums) {
    for (int j = 0; j < b->k; j++) {
        KERNEL(prefetch_step)(x->next);
        for (int m = 0; m < x->count; m += PANEL_INPUTS) {
            const uint8_t *codes = p->codes + (b->at + j) * unit * PANEL_ROWS;
            const int8_t *q = x->q + ((b->at + j) * PACK_ROWS + m) * unit;
            (x->count - m > PANEL_INPUTS / 2 ? full : half)(codes, q, sums[j] + m);
        }
    }
}

// Multiplies the whole panel with a block of activations.
SIMD void panel_tile(const panel *p, const inputs *x, const int unit, KERNEL(unit_function) * half,
                     KERNEL(unit_function) * full) {
    tile t;
    for (batch b = KERNEL(first_batch)(p->order); b.remainder < 4;
         b = KERNEL(next_batch)(p->order, b)) {
        KERNEL(products)(p, x, &b, unit, half, full, t.sums);
        KERNEL(fold_batch)(&t, p, x, &b, t.sums);
    }
    KERNEL(tile_out)(&t, p, x);
}

// p_unit in functions that are not inlined, because GCC runs out of registers otherwise. They write
// to memory last, since codes might point to the same memory.
#define UNIT(name, mr, unit, fits) \
    static __attribute__((noinline)) void KERNEL(name##_##unit##_##fits)( \
        const uint8_t *codes, const int8_t *q, lanes(*sums)[2]) { \
        lanes mine[PANEL_INPUTS][2]; \
        p_unit(codes, q, mr, unit, fits, mine); \
        _Pragma("GCC unroll 8") for (int m = 0; m < mr; m++) sums[m][0] = mine[m][0], \
                                                             sums[m][1] = mine[m][1]; \
    }
#define TILE(unit, fits) \
    UNIT(unit_half, PANEL_INPUTS / 2, unit, fits) \
    UNIT(unit_full, PANEL_INPUTS, unit, fits) \
    static void KERNEL(tile_##unit##_##fits)(const panel *p, const inputs *x) { \
        panel_tile(p, x, unit, KERNEL(unit_half_##unit##_##fits), \
                   KERNEL(unit_full_##unit##_##fits)); \
    }
#define BOTH(fits) TILE(64, fits) TILE(32, fits)
EACH_FITS(BOTH)
#undef BOTH
#define BOTH(fits) {KERNEL(tile_64_##fits), KERNEL(tile_32_##fits)}

static KERNEL(panel_function) * KERNEL(tile_function)(const matmul_weight *w) {
    static KERNEL(panel_function) *const functions[3][2] = {FITS_OF(BOTH)};
    return functions[w->bits == 8 ? 2 : w->bits > 4 || w->mode != MODE_AFFINE]
                    [matmul_unit(w) == 32];
}

#undef UNIT
#undef TILE
#undef BOTH
