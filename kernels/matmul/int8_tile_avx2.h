// Multiplies a panel of weights with a block of activations on AVX2, four rows of activations at a
// time. The sums of a unit's products are scaled while they are in registers. Float instructions
// use execution units that integer products leave idle, so scaling overlaps with the next products.
// The accumulators stay in the first-level cache. Included by int8_panel.h; other sets have
// int8_tile.h.

#define unit_products KERNEL(unit_products)
#define unit_fold KERNEL(unit_fold)
#define merge KERNEL(merge)

// Rows of activations at a time: their eight sums and their operands fit the registers.
#define TILE_INPUTS 4

// The accumulators of a remainder's units (int8_pack.h), and their sums: of remainders 0 and 2,
// then of 1 and 3.
#define accumulators KERNEL(accumulators)
#define totals KERNEL(totals)
typedef float accumulators[4][TILE_INPUTS][2][LANES];
typedef float totals[2][PACK_ROWS][2][LANES];

// FENCE keeps GCC from moving code across it. GCC would compute all products of a unit first, and
// run out of registers.
#define FENCE(...) __asm__ volatile("" : __VA_ARGS__ : : "memory")

// Sets sums to a unit's products with mr rows of activations. `fits` sums of two products are added
// up in 16 bits: 8 for codes up to 15, 4 up to 31, 2 up to 63. 0 means codes of 8 bits, which are
// widened first, as activations are: even elements and odd ones apart.
SIMD void unit_products(const uint8_t *codes, const int8_t *q, const int mr, const int unit,
                        const int fits, lanes (*sums)[2]) {
    const lanes one = _mm256_set1_epi16(1), low = _mm256_set1_epi16(255);
    lanes pairs[TILE_INPUTS][2];
#pragma GCC unroll 4
    for (int m = 0; m < mr && fits == 0; m++) sums[m][0] = sums[m][1] = l_zero();
#pragma GCC unroll 16
    for (int s = 0; s < unit / 4; s++) {
        const lanes a = p_load(codes + s * PANEL_ROWS * 4),
                    b = p_load(codes + s * PANEL_ROWS * 4 + LANES * 4);
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) {
            const lanes x = KERNEL(p_four)(q + m * unit + 4 * s);
            if (fits == 0) {
                const lanes even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8),
                            odd = _mm256_srai_epi16(x, 8);
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) {
                    const lanes c = v ? b : a;
                    sums[m][v] =
                        l_add(sums[m][v], _mm256_madd_epi16(_mm256_and_si256(c, low), even));
                    sums[m][v] = l_add(sums[m][v], _mm256_madd_epi16(_mm256_srli_epi16(c, 8), odd));
                }
                FENCE("+v"(sums[m][0]), "+v"(sums[m][1]));
                continue;
            }
            const lanes ax = _mm256_maddubs_epi16(a, x), bx = _mm256_maddubs_epi16(b, x);
            pairs[m][0] = s % fits ? _mm256_add_epi16(pairs[m][0], ax) : ax;
            pairs[m][1] = s % fits ? _mm256_add_epi16(pairs[m][1], bx) : bx;
            FENCE("+v"(pairs[m][0]), "+v"(pairs[m][1]));
        }
        if (fits == 0 || s % fits != fits - 1) continue;
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                const lanes sum = _mm256_madd_epi16(pairs[m][v], one);
                sums[m][v] = s < fits ? sum : l_add(sums[m][v], sum);
            }
    }
}

// Adds to acc the scaled products of unit u of the panel with mr rows of activations. If `first`
// is set, acc counts as zero and is not read.
SIMD void unit_fold(const panel *p, int64_t u, const int8_t *q, const float *params,
                    const int first, const int mr, const int unit, const int fits, const int affine,
                    float (*acc)[2][LANES]) {
    lanes sums[TILE_INPUTS][2];
    unit_products(p->codes + u * unit * PANEL_ROWS, q, mr, unit, fits, sums);
    FENCE();
    lanesf scale[2], bias[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        scale[v] = lf_load(p->scales + u * PANEL_ROWS + v * LANES);
        bias[v] = affine ? lf_load(p->biases + u * PANEL_ROWS + v * LANES) : lf_set1(-E2M1_OFFSET);
    }
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        const lanesf one = lf_set1(params[m]), sum = lf_set1(params[PACK_ROWS + m]);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const lanesf a = first ? lf_set1(0) : lf_load(acc[m][v]), dot = lf_of(sums[m][v]),
                         both = lf_mul(scale[v], one);
            lf_store(acc[m][v], affine ? lf_fma(bias[v], sum, lf_fma(dot, both, a))
                                       : lf_fma(lf_fma(bias[v], sum, dot), both, a));
            FENCE();
        }
    }
}

typedef void KERNEL(unit_function)(const panel *p, int64_t u, const int8_t *q, const float *params,
                                   int first, float (*acc)[2][LANES]);

// Adds up rows [from, to) of a remainder's accumulators as v_sum does.
SIMD void merge(const inputs *x, const int remainder, accumulators acc, totals total, int from,
                int to) {
#pragma GCC unroll 1
    for (int m = from; m < to; m++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const int i = m - from;
            lanesf all = lf_add(lf_add(lf_load(acc[0][i][v]), lf_load(acc[2][i][v])),
                                lf_add(lf_load(acc[1][i][v]), lf_load(acc[3][i][v])));
            // Otherwise the next tile's stores would wait for these lines.
            if (remainder == v) __builtin_prefetch(x->out[m] + v * LANES, 1);
            if (remainder & 1) all = lf_add(lf_load(total[remainder / 2][m][v]), all);
            if (remainder == 3) all = lf_add(lf_load(total[0][m][v]), all);
            lf_store(remainder == 3 && x->whole ? x->out[m] + v * LANES
                                                : total[remainder / 2][m][v],
                     all);
        }
}

// Multiplies the whole panel with a block of activations.
static __attribute__((noinline)) void KERNEL(panel_tile)(const panel *p, const inputs *x,
                                                         KERNEL(unit_function) * half,
                                                         KERNEL(unit_function) * full) {
    const int64_t unit = p->order->unit;
    accumulators acc[PACK_ROWS / TILE_INPUTS] __attribute__((aligned(64)));
    totals total __attribute__((aligned(64)));
    for (batch b = KERNEL(first_batch)(p->order); b.remainder < 4;
         b = KERNEL(next_batch)(p->order, b)) {
        for (int j = 0; j < b.k; j++) {
            const int8_t *q = x->q + (b.at + j) * PACK_ROWS * unit;
            const float *params = x->params + (b.at + j) * 2 * PACK_ROWS;
            KERNEL(prefetch_step)(x->next);
            for (int m = 0; m < x->count; m += TILE_INPUTS)
                (x->count - m > TILE_INPUTS / 2 ? full : half)(
                    p, b.at + j, q + m * unit, params + m, b.first, acc[m / TILE_INPUTS][j]);
        }
        for (int m = 0; m < x->count; m += TILE_INPUTS) {
            const int to = x->count - m < TILE_INPUTS ? x->count : m + TILE_INPUTS;
            float (*mine)[TILE_INPUTS][2][LANES] = acc[m / TILE_INPUTS];
            if (b.first && b.k < 4) memset(mine[b.k], 0, (size_t)(4 - b.k) * sizeof mine[0]);
            if (!b.last) continue;
            switch (b.remainder) {
            case 0: merge(x, 0, mine, total, m, to); break;
            case 1: merge(x, 1, mine, total, m, to); break;
            case 2: merge(x, 2, mine, total, m, to); break;
            case 3: merge(x, 3, mine, total, m, to); break;
            }
        }
    }
    for (int m = 0; !x->whole && m < x->count; m++)
        memcpy(x->out[m], total[1][m], (size_t)p->n * 4);
}

// Units in functions that are not inlined, because GCC runs out of registers otherwise.
#define UNIT(name, mr, unit, fits, affine) \
    static __attribute__((noinline)) void name(const panel *p, int64_t u, const int8_t *q, \
                                               const float *params, int first, \
                                               float (*acc)[2][LANES]) { \
        if (first) unit_fold(p, u, q, params, 1, mr, unit, fits, affine, acc); \
        else unit_fold(p, u, q, params, 0, mr, unit, fits, affine, acc); \
    }
#define TILE(unit, fits, affine) \
    UNIT(KERNEL(half_##unit##_##fits##_##affine), 2, unit, fits, affine) \
    UNIT(KERNEL(full_##unit##_##fits##_##affine), 4, unit, fits, affine) \
    static void KERNEL(tile_##unit##_##fits##_##affine)(const panel *p, const inputs *x) { \
        KERNEL(panel_tile)(p, x, KERNEL(half_##unit##_##fits##_##affine), \
                           KERNEL(full_##unit##_##fits##_##affine)); \
    }
TILE(64, 8, 1)
TILE(32, 8, 1)
    TILE(64, 4, 1) TILE(32, 4, 1) TILE(64, 2, 1) TILE(32, 2, 1) TILE(64, 0, 1) TILE(32, 0, 1)
        TILE(32, 4, 0) // MXFP4: codes up to 24

#define BOTH(fits) {KERNEL(tile_64_##fits##_1), KERNEL(tile_32_##fits##_1)}
    static KERNEL(panel_function) *
    KERNEL(tile_function)(const matmul_weight *w) {
    static KERNEL(panel_function) *const functions[9][2] = {
        [2] = BOTH(8), [3] = BOTH(8), [4] = BOTH(8), [5] = BOTH(4), [6] = BOTH(2), [8] = BOTH(0)};
    return w->mode == MODE_MXFP4 ? KERNEL(tile_32_4_0) : functions[w->bits][w->group == 32];
}

#undef TILE_INPUTS
#undef FENCE
#undef UNIT
#undef TILE
#undef BOTH
