// A panel of weights times a block of activations, eight rows of them at a time: first the sums of
// a batch's units, in memory, then their floats. Included by int8_panel.h; AVX2 has
// int8_tile_avx2.h.

#define p_unit KERNEL(p_unit)
#define panel_tile KERNEL(panel_tile)

#undef PANEL_INPUTS
#define PANEL_INPUTS 8 // rows of activations at a time

// The sums of a unit's products, from its first codes on, for mr rows of activations. Where
// products are added up in 16 bits at first, fits sums of two products fit them: 8 for codes up to
// 15, 2 up to 63. 0 means codes of 8 bits.
SIMD void p_unit(const uint8_t *codes, const int8_t *q, const int mr, const int unit, const int fits, lanes (*sums)[2]) {
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) sums[m][0] = sums[m][1] = l_zero();
#if ISA == ISA_VNNI
    (void)fits;
#pragma GCC unroll 16
    for (int s = 0; s < unit / 4; s++) {
        const lanes a = p_load(codes + s * PANEL_ROWS * 4), b = p_load(codes + s * PANEL_ROWS * 4 + LANES * 4);
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++) {
            const lanes x = KERNEL(p_four)(q + m * unit + 4 * s);
            sums[m][0] = _mm512_dpbusd_epi32(sums[m][0], a, x);
            sums[m][1] = _mm512_dpbusd_epi32(sums[m][1], b, x);
        }
    }
#elif LANES == 4
    const int8x16_t one = vdupq_n_s8(1);
    int32_t middle[PANEL_INPUTS];
    for (int m = 0; m < mr; m++) middle[m] = 0;
#pragma GCC unroll 4
    for (int s = 0; s < unit / 4; s += 4) {
        int8x16_t x[PANEL_INPUTS];
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++) x[m] = vld1q_s8(q + m * unit + 4 * s);
        if (fits == 0) // products are of signed bytes: codes go as code-128
            for (int m = 0; m < mr; m++) middle[m] += 128 * vaddvq_s32(vdotq_s32(l_zero(), x[m], one));
#define STEP(i) { \
            int8x16_t a = vreinterpretq_s8_s32(p_load(codes + (s + i) * PANEL_ROWS * 4)), b = vreinterpretq_s8_s32(p_load(codes + (s + i) * PANEL_ROWS * 4 + 16)); \
            if (fits == 0) a = veorq_s8(a, vdupq_n_s8(-128)), b = veorq_s8(b, vdupq_n_s8(-128)); \
            _Pragma("GCC unroll 8") for (int m = 0; m < mr; m++) { \
                sums[m][0] = vdotq_laneq_s32(sums[m][0], a, x[m], i); \
                sums[m][1] = vdotq_laneq_s32(sums[m][1], b, x[m], i); \
            } \
        }
        STEP(0) STEP(1) STEP(2) STEP(3)
#undef STEP
    }
    if (fits == 0)
        for (int m = 0; m < mr; m++)
            for (int v = 0; v < 2; v++) sums[m][v] = l_add(sums[m][v], vdupq_n_s32(middle[m]));
#else
    const lanes one = MM(set1_epi16)(1), top = MM(set1_epi8)((char)128);
    const int run = fits == 0 ? 1 : fits;
#pragma GCC unroll 16
    for (int first = 0; first < unit / 4; first += run) {
        lanes pairs[PANEL_INPUTS][2];
#pragma GCC unroll 8
        for (int s = first; s < first + run; s++) {
            lanes a = p_load(codes + s * PANEL_ROWS * 4), b = p_load(codes + s * PANEL_ROWS * 4 + LANES * 4), x;
#pragma GCC unroll 8
            for (int m = 0; m < mr; m++) {
                x = KERNEL(p_four)(q + m * unit + 4 * s);
                if (fits == 0) {
                	// maddubs adds two products in 16 bits: safe for codes up to 128, so the top
                	// bit goes apart
                    const lanes low = MM(set1_epi8)(127);
                    for (int v = 0; v < 2; v++) {
                        const lanes c = v ? b : a;
                        sums[m][v] = l_add(sums[m][v], MM(madd_epi16)(MM(maddubs_epi16)(MMI(and)(low, c), x), one));
                        sums[m][v] = l_add(sums[m][v], MM(madd_epi16)(MM(maddubs_epi16)(MMI(and)(top, c), x), one));
                    }
                    continue;
                }
                const lanes ax = MM(maddubs_epi16)(a, x), bx = MM(maddubs_epi16)(b, x);
                pairs[m][0] = s == first ? ax : MM(add_epi16)(pairs[m][0], ax);
                pairs[m][1] = s == first ? bx : MM(add_epi16)(pairs[m][1], bx);
                // or GCC makes trees of the sums and runs out of registers
                __asm__("" : "+v"(pairs[m][0]), "+v"(pairs[m][1]));
            }
        }
        if (fits == 0) continue;
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) sums[m][v] = l_add(sums[m][v], MM(madd_epi16)(pairs[m][v], one));
    }
#endif
}

// What a panel and a block of activations need on the way to their outputs. It stays in the
// first-level cache beside what is read, if it is small: with eight units in a batch everything was
// slower.
#define tile KERNEL(tile)
#define unit_sums KERNEL(unit_sums)
typedef lanes unit_sums[PACK_ROWS][2];
typedef struct {
    // of the products of a batch's units; in memory, or compilers keep more in registers than there
    // are
    unit_sums sums[4];
    // the accumulators of a remainder with more than four units
    float acc[4][PACK_ROWS][2][LANES];
    // what they add up to: remainders 0 and 2 first, then those before and after each other
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
            s.bias[j][v] = affine ? lf_load(p->biases + (b->at + j) * PANEL_ROWS + v * LANES) : lf_set1(-E2M1_OFFSET);
        }
    return s;
}

// Rows [from, to) of a batch of k units: adds them to their accumulators, which are zero before the
// remainder's first, and after its last the accumulators to each other, as v_sum does.
SIMD void KERNEL(fold)(tile *t, const inputs *x, const batch *b, const int k, const int affine, const batch_scales *s, const unit_sums *sums, int from, int to) {
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
                const lanesf one = lf_set1(params[2 * j * PACK_ROWS + m]), sum = lf_set1(params[(2 * j + 1) * PACK_ROWS + m]);
                const lanesf dot = lf_of(sums[j][m][v]), both = lf_mul(s->scale[j][v], one);
                a[j] = affine ? lf_fma(s->bias[j][v], sum, lf_fma(dot, both, a[j])) : lf_fma(lf_fma(s->bias[j][v], sum, dot), both, a[j]);
            }
            if (!b->last) {
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++) lf_store(t->acc[j][m][v], a[j]);
                continue;
            }
            lanesf all = lf_add(lf_add(a[0], a[2]), lf_add(a[1], a[3]));
            // or the next tile's stores wait for these
            if (b->remainder == v) __builtin_prefetch(x->out[m] + v * LANES, 1);
            if (b->remainder & 1) all = lf_add(lf_load(t->total[b->remainder / 2][m][v]), all);
            if (b->remainder == 3) all = lf_add(lf_load(t->total[0][m][v]), all);
            lf_store(b->remainder == 3 && x->whole ? x->out[m] + v * LANES : t->total[b->remainder / 2][m][v], all);
        }
}

#define FOLD(k, affine) \
    static void KERNEL(fold_##k##_##affine)(tile *t, const panel *p, const inputs *x, const batch *b, const unit_sums *sums) { \
        const batch_scales s = KERNEL(scales_of)(p, b, k, affine); \
        KERNEL(fold)(t, x, b, k, affine, &s, sums, 0, x->count); \
    }
FOLD(0, 0) FOLD(1, 0) FOLD(2, 0) FOLD(3, 0) FOLD(4, 0)
FOLD(1, 1) FOLD(2, 1) FOLD(3, 1) FOLD(4, 1)
#undef FOLD
typedef void KERNEL(fold_function)(tile *t, const panel *p, const inputs *x, const batch *b, const unit_sums *sums);
static void KERNEL(fold_batch)(tile *t, const panel *p, const inputs *x, const batch *b, const unit_sums *sums) {
    static KERNEL(fold_function) *const folds[2][5] = {
        {KERNEL(fold_0_0), KERNEL(fold_1_0), KERNEL(fold_2_0), KERNEL(fold_3_0), KERNEL(fold_4_0)},
        {KERNEL(fold_0_0), KERNEL(fold_1_1), KERNEL(fold_2_1), KERNEL(fold_3_1), KERNEL(fold_4_1)},
    };
    folds[p->biases != NULL][b->k](t, p, x, b, sums);
}

// All batches are folded: the outputs of a panel that is not whole.
SIMD void KERNEL(tile_out)(const tile *t, const panel *p, const inputs *x) {
    for (int m = 0; !x->whole && m < x->count; m++) memcpy(x->out[m], t->total[1][m], (size_t)p->n * 4);
}

// The sums of a batch's products, PANEL_INPUTS rows at a time.
typedef void KERNEL(unit_function)(const uint8_t *codes, const int8_t *q, lanes (*sums)[2]);
SIMD void KERNEL(products)(const panel *p, const inputs *x, const batch *b, const int unit, KERNEL(unit_function) *half, KERNEL(unit_function) *full, unit_sums *sums) {
    for (int j = 0; j < b->k; j++) {
        KERNEL(fetch_step)(x->next);
        for (int m = 0; m < x->count; m += PANEL_INPUTS) {
            const uint8_t *codes = p->codes + (b->at + j) * unit * PANEL_ROWS;
            const int8_t *q = x->q + ((b->at + j) * PACK_ROWS + m) * unit;
            (x->count - m > PANEL_INPUTS / 2 ? full : half)(codes, q, sums[j] + m);
        }
    }
}

// The whole panel times a block of activations.
SIMD void panel_tile(const panel *p, const inputs *x, const int unit, KERNEL(unit_function) *half, KERNEL(unit_function) *full) {
    tile t;
    for (batch b = KERNEL(first_batch)(p->order); b.remainder < 4; b = KERNEL(next_batch)(p->order, b)) {
        KERNEL(products)(p, x, &b, unit, half, full, t.sums);
        KERNEL(fold_batch)(&t, p, x, &b, t.sums);
    }
    KERNEL(tile_out)(&t, p, x);
}

// p_unit as functions of their own, or GCC runs out of registers; it writes to memory last, since
// what is there may be what codes points to.
#define UNIT(name, mr, unit, fits) \
    static __attribute__((noinline)) void KERNEL(name##_##unit##_##fits)(const uint8_t *codes, const int8_t *q, lanes (*sums)[2]) { \
        lanes mine[PANEL_INPUTS][2]; \
        p_unit(codes, q, mr, unit, fits, mine); \
        _Pragma("GCC unroll 8") for (int m = 0; m < mr; m++) sums[m][0] = mine[m][0], sums[m][1] = mine[m][1]; \
    }
#define TILE(unit, fits) \
    UNIT(unit_half, PANEL_INPUTS / 2, unit, fits) UNIT(unit_full, PANEL_INPUTS, unit, fits) \
    static void KERNEL(tile_##unit##_##fits)(const panel *p, const inputs *x) { panel_tile(p, x, unit, KERNEL(unit_half_##unit##_##fits), KERNEL(unit_full_##unit##_##fits)); }
#define BOTH(fits) {KERNEL(tile_64_##fits), KERNEL(tile_32_##fits)}
TILE(64, 8) TILE(32, 8)
#if ISA == ISA_VNNI // one instruction for all codes
#define WAYS {BOTH(8), BOTH(8), BOTH(8)}
#elif ISA == ISA_NEON
TILE(64, 0) TILE(32, 0)
#define WAYS {BOTH(8), BOTH(8), BOTH(0)}
#else
TILE(64, 2) TILE(32, 2)
TILE(64, 0) TILE(32, 0)
#define WAYS {BOTH(8), BOTH(2), BOTH(0)}
#endif

static KERNEL(panel_function) *KERNEL(tile_function)(const matmul_weight *w) {
    static KERNEL(panel_function) *const functions[3][2] = WAYS;
    return functions[w->bits == 8 ? 2 : w->bits > 4 || w->mode != MODE_AFFINE][matmul_unit(w) == 32];
}

#undef UNIT
#undef TILE
#undef BOTH
#undef WAYS
