// Many rows of activations: PANEL_ROWS rows of the weight are unpacked side by side, four elements of each row in a lane, so that a lane's
// sum is an element's and becomes a float once per unit. Included once per instruction set, after int8_few.h and int8_pack.h.
//
// Units are in the order that accumulators are finished in (int8_pack.h), here as in the activations, so both are read from front to back.
// A panel is codes [steps of 4 elements][PANEL_ROWS][4], then scales and biases, float32 [units][PANEL_ROWS]; rows past the weight's last
// are garbage that nobody reads the results of.

#define p_load KERNEL(p_load)
#define p_transpose KERNEL(p_transpose)
#define p_unit KERNEL(p_unit)
#define panel KERNEL(panel)
#define panel_tile KERNEL(panel_tile)

#undef PANEL_ROWS
#undef PANEL_INPUTS
#define PANEL_ROWS (2 * LANES)
#if ISA == ISA_AVX2
#define PANEL_INPUTS 4 // rows of activations at a time
#else
#define PANEL_INPUTS 8
#endif

// A vector of floats as wide as lanes.
#define lanesf KERNEL(lanesf)
#define lf_load KERNEL(lf_load)
#define lf_store KERNEL(lf_store)
#define lf_set1 KERNEL(lf_set1)
#define lf_mul KERNEL(lf_mul)
#define lf_add KERNEL(lf_add)
#define lf_fma KERNEL(lf_fma)
#define lf_of KERNEL(lf_of)
#if LANES == 16
typedef __m512 lanesf;
#define MM(op) _mm512_##op
#define MMI(op) _mm512_##op##_si512
#elif LANES == 8
typedef __m256 lanesf;
#define MM(op) _mm256_##op
#define MMI(op) _mm256_##op##_si256
#endif
#if LANES == 4
typedef float32x4_t lanesf;
SIMD lanesf lf_load(const float *p) { return vld1q_f32(p); }
SIMD void lf_store(float *p, lanesf x) { vst1q_f32(p, x); }
SIMD lanesf lf_set1(float x) { return vdupq_n_f32(x); }
SIMD lanesf lf_mul(lanesf a, lanesf b) { return vmulq_f32(a, b); }
SIMD lanesf lf_add(lanesf a, lanesf b) { return vaddq_f32(a, b); }
SIMD lanesf lf_fma(lanesf a, lanesf b, lanesf c) { return vfmaq_f32(c, a, b); } // a*b + c
SIMD lanesf lf_of(lanes x) { return vcvtq_f32_s32(x); }
SIMD lanes p_load(const uint8_t *p) { return vld1q_s32((const int32_t *)p); }
SIMD void KERNEL(p_store)(uint8_t *p, lanes x) { vst1q_s32((int32_t *)p, x); }
#else
SIMD lanesf lf_load(const float *p) { return MM(loadu_ps)(p); }
SIMD void lf_store(float *p, lanesf x) { MM(storeu_ps)(p, x); }
SIMD lanesf lf_set1(float x) { return MM(set1_ps)(x); }
SIMD lanesf lf_mul(lanesf a, lanesf b) { return MM(mul_ps)(a, b); }
SIMD lanesf lf_add(lanesf a, lanesf b) { return MM(add_ps)(a, b); }
SIMD lanesf lf_fma(lanesf a, lanesf b, lanesf c) { return MM(fmadd_ps)(a, b, c); } // a*b + c
SIMD lanesf lf_of(lanes x) { return MM(cvtepi32_ps)(x); }
SIMD lanes p_load(const uint8_t *p) {
    lanes x;
    memcpy(&x, p, sizeof x);
    return x;
}
SIMD void KERNEL(p_store)(uint8_t *p, lanes x) { memcpy(p, &x, sizeof x); }
SIMD lanes KERNEL(p_four)(const int8_t *q) { // four codes in every lane
    int32_t four;
    memcpy(&four, q, 4);
    return MM(set1_epi32)(four);
}
#endif

// Row i of x becomes column i.
SIMD void p_transpose(lanes *x) {
    lanes y[LANES];
#if LANES == 16
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        lanes a = _mm512_unpacklo_epi32(x[i], x[i + 1]), b = _mm512_unpackhi_epi32(x[i], x[i + 1]);
        lanes c = _mm512_unpacklo_epi32(x[i + 2], x[i + 3]), d = _mm512_unpackhi_epi32(x[i + 2], x[i + 3]);
        y[i] = _mm512_unpacklo_epi64(a, c), y[i + 1] = _mm512_unpackhi_epi64(a, c);
        y[i + 2] = _mm512_unpacklo_epi64(b, d), y[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { // quarter j of y[i], y[4+i], y[8+i], y[12+i] is row 4j+i
        lanes a = _mm512_shuffle_i32x4(y[i], y[4 + i], 0x88), b = _mm512_shuffle_i32x4(y[i], y[4 + i], 0xdd);
        lanes c = _mm512_shuffle_i32x4(y[8 + i], y[12 + i], 0x88), d = _mm512_shuffle_i32x4(y[8 + i], y[12 + i], 0xdd);
        x[i] = _mm512_shuffle_i32x4(a, c, 0x88), x[8 + i] = _mm512_shuffle_i32x4(a, c, 0xdd);
        x[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88), x[12 + i] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
#elif LANES == 8
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        lanes a = _mm256_unpacklo_epi32(x[i], x[i + 1]), b = _mm256_unpackhi_epi32(x[i], x[i + 1]);
        lanes c = _mm256_unpacklo_epi32(x[i + 2], x[i + 3]), d = _mm256_unpackhi_epi32(x[i + 2], x[i + 3]);
        y[i] = _mm256_unpacklo_epi64(a, c), y[i + 1] = _mm256_unpackhi_epi64(a, c);
        y[i + 2] = _mm256_unpacklo_epi64(b, d), y[i + 3] = _mm256_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) x[i] = _mm256_permute2x128_si256(y[i], y[4 + i], 0x20), x[4 + i] = _mm256_permute2x128_si256(y[i], y[4 + i], 0x31);
#else
    int32x4x2_t a = vtrnq_s32(x[0], x[1]), b = vtrnq_s32(x[2], x[3]);
    for (int i = 0; i < 2; i++) {
        y[i] = vcombine_s32(vget_low_s32(a.val[i]), vget_low_s32(b.val[i]));
        y[2 + i] = vcombine_s32(vget_high_s32(a.val[i]), vget_high_s32(b.val[i]));
    }
    for (int i = 0; i < 4; i++) x[i] = y[i];
#endif
}

// Part i of 64 codes: LANES fours of them.
#define c_part KERNEL(c_part)
SIMD lanes c_part(codes64 c, const int i) {
#if LANES == 16
    return (void)i, c;
#elif LANES == 8
    return i ? c.b : c.a;
#else
    return vreinterpretq_s32_u8(c.v[i]);
#endif
}

// Unpacks n rows of the weight from its first on; the last one stands for those that are missing.
SIMD void KERNEL(unpack)(const matmul_weight *w, const pack_order *o, int64_t n, const int mode, const int bits, uint8_t *codes) {
    const int64_t per = 64 / o->unit, unit_bytes = o->unit * PANEL_ROWS;
    for (int64_t at = 0, chunk = 0; at < w->k; at += 64, chunk++) {
        uint8_t *first8 = codes + pack_place(o, chunk * per) * unit_bytes; // of the chunk's sixteen steps
        uint8_t *last8 = per == 1 ? first8 + 8 * PANEL_ROWS * 4 : codes + pack_place(o, chunk * per + 1) * unit_bytes;
        for (int first = 0; first < PANEL_ROWS; first += LANES) {
            codes64 c[LANES];
            for (int i = 0; i < LANES; i++) {
                const int64_t row = first + i < n ? first + i : n - 1;
                const uint8_t *p = w->data + row * w->data_stride + at / 8 * bits;
                __builtin_prefetch(p + PANEL_ROWS * w->data_stride); // the next panel: these are too many streams for hardware to follow
                c[i] = w->k - at >= 64 ? c_load(p, bits) : c_load_half(p, bits);
                if (mode == MODE_MXFP4) c[i] = c_e2m1(c[i]);
            }
#pragma GCC unroll 4
            for (int j = 0; j < 16 / LANES; j++) {
                lanes x[LANES];
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) x[i] = c_part(c[i], j);
                p_transpose(x);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) {
                    const int step = j * LANES + i;
                    KERNEL(p_store)((step < 8 ? first8 : last8) + (step % 8 * PANEL_ROWS + first) * 4, x[i]);
                }
            }
        }
    }
}

static void KERNEL(unpack_panel)(const matmul_weight *w, const pack_order *o, int64_t n, uint8_t *codes, float *scales, float *biases) {
    const int64_t units = o->units;
    if (w->mode == MODE_MXFP4) {
        KERNEL(unpack)(w, o, n, MODE_MXFP4, 4, codes);
        for (int64_t row = 0; row < n; row++)
            for (int64_t u = 0; u < units; u += 16) {
                float s[16];
                v_store(s, v_load_e8m0(w->scales + row * w->scales_stride, u, units));
                for (int64_t i = 0; i < 16 && u + i < units; i++) scales[pack_place(o, u + i) * PANEL_ROWS + row] = s[i];
            }
        return;
    }
    switch (w->bits) {
    case 2: KERNEL(unpack)(w, o, n, MODE_AFFINE, 2, codes); break;
    case 3: KERNEL(unpack)(w, o, n, MODE_AFFINE, 3, codes); break;
    case 4: KERNEL(unpack)(w, o, n, MODE_AFFINE, 4, codes); break;
    case 5: KERNEL(unpack)(w, o, n, MODE_AFFINE, 5, codes); break;
    case 6: KERNEL(unpack)(w, o, n, MODE_AFFINE, 6, codes); break;
    case 8: KERNEL(unpack)(w, o, n, MODE_AFFINE, 8, codes); break;
    }
    for (int64_t row = 0; row < n; row++)
        for (int64_t u = 0; u < units; u += 16) {
            float s[16], b[16];
            v_store(s, unit_params(w->scales + row * w->scales_stride, w->dtype, w->group, w->k, u));
            v_store(b, unit_params(w->biases + row * w->biases_stride, w->dtype, w->group, w->k, u));
            for (int64_t i = 0; i < 16 && u + i < units; i++) {
                const int64_t at = pack_place(o, u + i) * PANEL_ROWS + row;
                scales[at] = s[i];
                biases[at] = b[i];
            }
        }
}

typedef struct {
    const uint8_t *codes;
    const float *scales, *biases; // no biases: MXFP4
    const pack_order *order;
    int n; // rows of the weight that exist
} panel;

// Rows of activations in a block of them (int8_pack.h).
#define inputs KERNEL(inputs)
typedef struct {
    const int8_t *q;     // of the first of them; a row's unit lies PACK_ROWS units behind the last
    const float *params; // a unit's scales and sums [2][PACK_ROWS], from the first of the rows on
    float *out[PACK_ROWS];
    int count; // of outputs that exist
} inputs;

// The sums of a unit's products, from its first codes on, for mr rows of activations. Where products are added up in 16 bits at first, fits
// sums of two products fit them: 8 for codes up to 15, 2 up to 63. 0 means codes of 8 bits.
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
                if (fits == 0) { // maddubs adds two products in 16 bits: safe for codes up to 128, so the top bit goes apart
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
                __asm__("" : "+v"(pairs[m][0]), "+v"(pairs[m][1])); // or GCC makes trees of the sums and runs out of registers
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

// The sixteen accumulators of PACK_ROWS rows of elements. They are finished one after another, in an order in which v_sum's tree can be
// climbed with one set of each height: they stay in the first-level cache.
#define tree KERNEL(tree)
typedef struct {
    float acc[5][PACK_ROWS][2][LANES] __attribute__((aligned(64)));
    int height; // acc[height] is at work, those below it are sums of 1, 2, 4 or 8
} tree;

// The accumulator at work is finished, number i in that order.
SIMD void KERNEL(tree_climb)(tree *t, int i, const int mr) {
    for (; i & 1; i >>= 1) {
        t->height--;
        float(*left)[2][LANES] = t->acc[t->height], (*right)[2][LANES] = t->acc[t->height + 1];
        for (int m = 0; m < mr; m++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) lf_store(left[m][v], lf_add(lf_load(left[m][v]), lf_load(right[m][v])));
    }
    t->height++;
}

// All are finished.
SIMD void KERNEL(tree_out)(const tree *t, const panel *p, const inputs *x) {
    for (int m = 0; m < x->count; m++)
        for (int v = 0; v < 2; v++) {
            const int64_t left = p->n - v * LANES;
            if (left >= LANES)
                lf_store(x->out[m] + v * LANES, lf_load(t->acc[0][m][v]));
            else if (left > 0)
                memcpy(x->out[m] + v * LANES, t->acc[0][m][v], (size_t)left * 4);
        }
}

// Adds the unit in place `at`, whose sums of products are given, to its accumulators, which are zero when it is their first. Meanwhile the next
// unit may be fetched, PACK_ROWS lines of activations and twice as many of codes.
SIMD void KERNEL(p_scale)(const panel *p, const inputs *x, int64_t at, const int first, const int mr, const int fetch, lanes (*sums)[2], float (*acc)[2][LANES]) {
    const int8_t *next_q = x->q + (at + 1) * p->order->unit * PACK_ROWS;
    const uint8_t *next_codes = p->codes + (at + 1) * p->order->unit * PANEL_ROWS;
    const float *scales = p->scales + at * PANEL_ROWS, *params = x->params + at * 2 * PACK_ROWS;
    const lanesf scale[2] = {lf_load(scales), lf_load(scales + LANES)};
    lanesf bias[2] = {lf_set1(-E2M1_OFFSET), lf_set1(-E2M1_OFFSET)};
    if (p->biases) bias[0] = lf_load(p->biases + at * PANEL_ROWS), bias[1] = lf_load(p->biases + at * PANEL_ROWS + LANES);
#pragma GCC unroll 2
    for (int m = 0; m < mr; m++) {
        if (fetch) __builtin_prefetch(next_q + 64 * m), __builtin_prefetch(next_codes + 128 * m), __builtin_prefetch(next_codes + 128 * m + 64);
        const lanesf one = lf_set1(params[m]), sum = lf_set1(params[PACK_ROWS + m]);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const lanesf dot = lf_of(sums[m][v]), s = lf_mul(scale[v], one), a = first ? lf_set1(0) : lf_load(acc[m][v]);
            lf_store(acc[m][v], p->biases ? lf_fma(bias[v], sum, lf_fma(dot, s, a)) : lf_fma(lf_fma(bias[v], sum, dot), s, a));
        }
    }
}

// The whole panel times mr rows of activations.
SIMD void panel_tile(const panel *p, const inputs *x, const int mr, const int unit, const int fits) {
    tree t;
    t.height = 0;
    int64_t at = 0;
    for (int i = 0; i < 16; i++) {
        float(*acc)[2][LANES] = t.acc[t.height];
        const int64_t n = p->order->units_of[i];
        if (n == 0) memset(acc, 0, sizeof t.acc[0]);
        for (int64_t u = 0; u < n; u++, at++) {
            lanes sums[PANEL_INPUTS][2], stored[PANEL_INPUTS][2];
            p_unit(p->codes + at * unit * PANEL_ROWS, x->q + at * unit * PACK_ROWS, mr, unit, fits, sums);
#pragma GCC unroll 8
            for (int m = 0; m < mr; m++)
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) stored[m][v] = sums[m][v];
            __asm__ volatile("" ::"r"(stored) : "memory"); // through memory, or compilers keep more in registers than there are
            if (u == 0)
                KERNEL(p_scale)(p, x, at, 1, mr, 0, stored, acc);
            else
                KERNEL(p_scale)(p, x, at, 0, mr, 0, stored, acc);
        }
        KERNEL(tree_climb)(&t, i, mr);
    }
    KERNEL(tree_out)(&t, p, x);
}

typedef void KERNEL(panel_function)(const panel *p, const inputs *x);

#define TILE(name, mr, unit, fits) \
    static void KERNEL(name##_##unit##_##fits)(const panel *p, const inputs *x) { panel_tile(p, x, mr, unit, fits); }
#define TILES(fits) \
    TILE(panel_half, PANEL_INPUTS / 2, 64, fits) TILE(panel_full, PANEL_INPUTS, 64, fits) \
    TILE(panel_half, PANEL_INPUTS / 2, 32, fits) TILE(panel_full, PANEL_INPUTS, 32, fits)
#define PAIR(name) {KERNEL(panel_half_##name), KERNEL(panel_full_##name)}
#define EACH(fits) {PAIR(64_##fits), PAIR(32_##fits)}
TILES(8)
#if ISA == ISA_VNNI // one instruction for all codes
#define WAYS {EACH(8), EACH(8), EACH(8)}
#elif ISA == ISA_NEON
TILES(0)
#define WAYS {EACH(8), EACH(8), EACH(0)}
#else
TILES(2)
TILES(0)
#define WAYS {EACH(8), EACH(2), EACH(0)}
#endif

// Unpacks the panel from row n of the weight on, which has rows up to `to`, into scratch.
static panel KERNEL(panel_from)(const matmul_weight *w, const pack_order *o, int64_t n, int64_t to, void *scratch) {
    const matmul_weight part = matmul_weight_from(w, n);
    float *scales = (float *)((uint8_t *)scratch + o->units * o->unit * PANEL_ROWS), *biases = scales + o->units * PANEL_ROWS;
    panel p = {.codes = scratch, .scales = scales, .biases = w->mode == MODE_AFFINE ? biases : NULL, .order = o};
    p.n = to - n < PANEL_ROWS ? (int)(to - n) : PANEL_ROWS;
    KERNEL(unpack_panel)(&part, o, p.n, scratch, scales, biases);
    return p;
}

// Up to `most` rows from row m on, and their outputs from column n on.
static inputs KERNEL(inputs_from)(const pack_order *o, const void *packed, const matmul_rows *r, int64_t m, int64_t n, int most) {
    const uint8_t *block = (const uint8_t *)packed + m / PACK_ROWS * pack_bytes(o->units, o->unit);
    inputs x = {.q = (const int8_t *)block + m % PACK_ROWS * o->unit, .params = (const float *)(block + o->units * o->unit * PACK_ROWS) + m % PACK_ROWS};
    x.count = r->count - m < most ? (int)(r->count - m) : most;
    for (int i = 0; i < x.count; i++) x.out[i] = r->out + matmul_out_row(r, m + i) * r->out_stride + n;
    return x;
}

// Rows [from, to) of the weight, a panel at a time, with every row of the input, which are packed. scratch holds a panel.
static void KERNEL(panel_rows)(const matmul_weight *w, int64_t from, int64_t to, const void *packed, const matmul_rows *r, void *scratch) {
    static KERNEL(panel_function) *const functions[3][2][2] = WAYS;
    const pack_order order = pack_order_of(w->k, matmul_unit(w));
    KERNEL(panel_function) *const *tiles = functions[w->bits == 8 ? 2 : w->bits > 4 || w->mode != MODE_AFFINE][order.unit == 32];
    for (int64_t n = from; n < to; n += PANEL_ROWS) {
        const panel p = KERNEL(panel_from)(w, &order, n, to, scratch);
        for (int64_t m = 0; m < r->count; m += PANEL_INPUTS) {
            const inputs x = KERNEL(inputs_from)(&order, packed, r, m, n, PANEL_INPUTS);
            tiles[x.count > PANEL_INPUTS / 2](&p, &x);
        }
    }
}

#undef TILE
#undef TILES
#undef PAIR
#undef EACH
#undef WAYS
