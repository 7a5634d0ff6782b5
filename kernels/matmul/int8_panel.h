// Many rows of activations: PANEL_ROWS rows of the weight are unpacked side by side, four elements
// of each row in a lane, so that a lane's sum is an element's and becomes a float once per unit.
// Included once per instruction set, after int8_few.h and int8_pack.h.
//
// Units are in the order of int8_pack.h, here as in the activations, so both are read from front to
// back. A panel is codes [steps of 4 elements][PANEL_ROWS][4], then scales and biases, float32
// [units][PANEL_ROWS]; rows past the weight's last are garbage that nobody reads the results of.

#define p_load KERNEL(p_load)
#define p_transpose KERNEL(p_transpose)
#define panel KERNEL(panel)

#undef PANEL_ROWS
#define PANEL_ROWS (2 * LANES)

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
        // of the chunk's sixteen steps
        uint8_t *first8 = codes + pack_place(o, chunk * per) * unit_bytes;
        uint8_t *last8 = per == 1 ? first8 + 8 * PANEL_ROWS * 4 : codes + pack_place(o, chunk * per + 1) * unit_bytes;
        for (int first = 0; first < PANEL_ROWS; first += LANES) {
            codes64 c[LANES];
            for (int i = 0; i < LANES; i++) {
                const int64_t row = first + i < n ? first + i : n - 1;
                const uint8_t *p = w->data + row * w->data_stride + at / 8 * bits;
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

// Floats of n rows in vectors of sixteen units, from unit u on, become vectors of rows, in the
// units' places in `to`.
SIMD void KERNEL(params_out)(const pack_order *o, int64_t u, const f32x16 *rows, float *to) {
    float lines[LANES][16];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v_store(lines[i], rows[i]);
    for (int first = 0; first < 16; first += LANES) {
        lanes x[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = p_load((const uint8_t *)(lines[i] + first));
        p_transpose(x);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (u + first + i < o->units) KERNEL(p_store)((uint8_t *)(to + pack_place(o, u + first + i) * PANEL_ROWS), x[i]);
    }
}

#if LANES > 4
// 32 bytes of each of LANES rows: four bytes of all of them in each of eight vectors. Halves of two
// rows, or two rows, are loaded as one vector, as moving halves between vectors is slow.
SIMD void KERNEL(p_columns)(const uint8_t *const *rows, int64_t at, lanes *x) {
    lanes y[8], z[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
#if LANES == 16
        y[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(rows[i / 4 * 8 + i % 4] + at))),
                                  _mm256_loadu_si256((const __m256i *)(rows[i / 4 * 8 + i % 4 + 4] + at)), 1);
#else
        y[i] = KERNEL(load_pair)(rows[i % 4] + at + i / 4 * 16, rows[4 + i % 4] + at + i / 4 * 16);
#endif
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        const lanes a = MM(unpacklo_epi32)(y[i], y[i + 1]), b = MM(unpackhi_epi32)(y[i], y[i + 1]);
        const lanes c = MM(unpacklo_epi32)(y[i + 2], y[i + 3]), d = MM(unpackhi_epi32)(y[i + 2], y[i + 3]);
        z[i] = MM(unpacklo_epi64)(a, c), z[i + 1] = MM(unpackhi_epi64)(a, c);
        z[i + 2] = MM(unpacklo_epi64)(b, d), z[i + 3] = MM(unpackhi_epi64)(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
#if LANES == 16
        x[i] = _mm512_shuffle_i32x4(z[i], z[4 + i], 0x88), x[4 + i] = _mm512_shuffle_i32x4(z[i], z[4 + i], 0xdd);
#else
        x[i] = z[i], x[4 + i] = z[4 + i];
#endif
    }
}

// Codes of 4 bits in bytes, from two in a byte: the even ones and the odd ones.
SIMD void KERNEL(p_apart)(lanes x, const int mode, lanes *even, lanes *odd) {
    const lanes low = MM(set1_epi8)(15);
    *even = MMI(and)(x, low), *odd = MMI(and)(MM(srli_epi16)(x, 4), low);
    if (mode != MODE_MXFP4) return;
#if LANES == 16
    *even = c_e2m1(*even), *odd = c_e2m1(*odd);
#else
    const codes64 c = c_e2m1((codes64){*even, *odd});
    *even = c.a, *odd = c.b;
#endif
}

// The same as `unpack` for codes of 4 bits, in the order of split activations (int8_pack.h): a
// unit's even codes, then its odd ones. They are transposed while they are packed, so half as much
// is moved, and taken apart by a mask and a shift. A chunk goes to `first` or, its second unit of
// 32, to `second`.
SIMD void KERNEL(split_chunk)(const uint8_t *const *rows, int64_t at, const int mode, const int unit, uint8_t *first, uint8_t *second) {
    lanes x[8], even, odd;
    KERNEL(p_columns)(rows, at, x);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        uint8_t *to = (unit == 64 || i < 4 ? first : second) + (unit == 64 ? i : i % 4) * PANEL_ROWS * 4;
        KERNEL(p_apart)(x[i], mode, &even, &odd);
        KERNEL(p_store)(to, even);
        KERNEL(p_store)(to + unit / 2 * PANEL_ROWS, odd);
    }
}
SIMD void KERNEL(unpack_split)(const matmul_weight *w, const pack_order *o, int64_t n, const int mode, const int unit, uint8_t *codes) {
    const int64_t per = 64 / unit, unit_bytes = unit * PANEL_ROWS;
    for (int first = 0; first < PANEL_ROWS; first += LANES) {
        const uint8_t *rows[LANES];
        for (int i = 0; i < LANES; i++) rows[i] = w->data + (first + i < n ? first + i : n - 1) * w->data_stride;
        uint8_t *to = codes + first * 4;
        int64_t chunk = 0;
        for (; chunk < w->k / 64; chunk++)
            KERNEL(split_chunk)(rows, chunk * 32, mode, unit, to + pack_place(o, chunk * per) * unit_bytes, to + pack_place(o, chunk * per + 1) * unit_bytes);
        if (w->k % 64) {
            uint8_t half[LANES][32] = {{0}};
            for (int i = 0; i < LANES; i++) memcpy(half[i], rows[i] + chunk * 32, 16), rows[i] = half[i];
            KERNEL(split_chunk)(rows, 0, mode, unit, to + pack_place(o, chunk * per) * unit_bytes, to + pack_place(o, chunk * per + 1) * unit_bytes);
        }
    }
}

// bfloat16 scales or biases of LANES rows of a weight, of sixteen units from unit u on: transposed
// in pairs, each unit's to a place of its own.
SIMD void KERNEL(params_bf16)(const uint8_t *const *rows, int64_t u, float *const *to) {
    lanes x[8];
    KERNEL(p_columns)(rows, 2 * u, x);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        KERNEL(p_store)((uint8_t *)to[2 * i], MM(slli_epi32)(x[i], 16));
        KERNEL(p_store)((uint8_t *)to[2 * i + 1], MMI(and)(x[i], MM(set1_epi32)(-65536)));
    }
}
#endif

// The scales and biases of n rows of the weight from its first on.
static void KERNEL(unpack_params)(const matmul_weight *w, const pack_order *o, int64_t n, float *scales, float *biases) {
    for (int first = 0; first < PANEL_ROWS; first += LANES) {
        const uint8_t *s_rows[LANES], *b_rows[LANES];
        for (int i = 0; i < LANES; i++) {
            const int64_t row = first + i < n ? first + i : n - 1;
            s_rows[i] = w->scales + row * w->scales_stride;
            b_rows[i] = w->mode == MODE_AFFINE ? w->biases + row * w->biases_stride : NULL;
        }
        for (int64_t u = 0; u < o->units; u += 16) {
#if LANES > 4
            if (w->mode == MODE_AFFINE && w->dtype == DTYPE_BF16 && w->group != 128 && o->units - u >= 16) {
                float *s_to[16], *b_to[16];
                for (int i = 0; i < 16; i++) {
                    const int64_t at = pack_place(o, u + i) * PANEL_ROWS + first;
                    s_to[i] = scales + at, b_to[i] = biases + at;
                }
                KERNEL(params_bf16)(s_rows, u, s_to);
                KERNEL(params_bf16)(b_rows, u, b_to);
                continue;
            }
#endif
            f32x16 s[LANES], b[LANES];
            for (int i = 0; i < LANES; i++) {
                if (w->mode == MODE_MXFP4) {
                    s[i] = v_load_e8m0(s_rows[i], u, o->units);
                    continue;
                }
                s[i] = unit_params(s_rows[i], w->dtype, w->group, w->k, u);
                b[i] = unit_params(b_rows[i], w->dtype, w->group, w->k, u);
            }
            KERNEL(params_out)(o, u, s, scales + first);
            if (w->mode == MODE_AFFINE) KERNEL(params_out)(o, u, b, biases + first);
        }
    }
}

static void KERNEL(unpack_panel)(const matmul_weight *w, const pack_order *o, int64_t n, uint8_t *codes, float *scales, float *biases) {
    switch (w->mode == MODE_MXFP4 ? 0 : w->bits) {
#if LANES > 4
    case 0: KERNEL(unpack_split)(w, o, n, MODE_MXFP4, 32, codes); break;
    case 4: o->unit == 64 ? KERNEL(unpack_split)(w, o, n, MODE_AFFINE, 64, codes) : KERNEL(unpack_split)(w, o, n, MODE_AFFINE, 32, codes); break;
#else
    case 0: KERNEL(unpack)(w, o, n, MODE_MXFP4, 4, codes); break;
    case 4: KERNEL(unpack)(w, o, n, MODE_AFFINE, 4, codes); break;
#endif
    case 2: KERNEL(unpack)(w, o, n, MODE_AFFINE, 2, codes); break;
    case 3: KERNEL(unpack)(w, o, n, MODE_AFFINE, 3, codes); break;
    case 5: KERNEL(unpack)(w, o, n, MODE_AFFINE, 5, codes); break;
    case 6: KERNEL(unpack)(w, o, n, MODE_AFFINE, 6, codes); break;
    case 8: KERNEL(unpack)(w, o, n, MODE_AFFINE, 8, codes); break;
    }
    KERNEL(unpack_params)(w, o, n, scales, biases);
}

typedef struct {
    const uint8_t *codes;
    const float *scales, *biases; // no biases: MXFP4
    const pack_order *order;
    int n; // rows of the weight that exist
} panel;

// What is asked for of the next panel's packed weights while this one is multiplied: a row at a
// time, spread evenly over the products, as many requests at once would wait for each other. Rows
// that follow each other here lie apart: the processor then fetches ahead in several pages at once,
// and does it without the few places that its cores have for loads on the way.
#define fetch KERNEL(fetch)
typedef struct {
    matmul_weight w;   // from the panel's first row on
    int64_t asked;     // rows
    int64_t at, steps; // at which unit's products, of so many
} fetch;
SIMD fetch KERNEL(fetch_from)(const matmul_weight *w, const pack_order *o, int64_t n, int64_t inputs) {
    return (fetch){.w = matmul_weight_from(w, n), .steps = o->units * ((inputs + PACK_ROWS - 1) / PACK_ROWS)};
}
SIMD void KERNEL(fetch_row)(const matmul_weight *w, int64_t row) {
    const int64_t code_bytes = w->k / 8 * w->bits, param_bytes = w->mode == MODE_MXFP4 ? w->k / 32 : w->k / w->group * 2;
    for (int64_t at = 0; at < code_bytes; at += 64) __builtin_prefetch(w->data + row * w->data_stride + at, 0, 2);
    for (int64_t at = 0; at < param_bytes; at += 64) {
        __builtin_prefetch(w->scales + row * w->scales_stride + at, 0, 2);
        if (w->biases) __builtin_prefetch(w->biases + row * w->biases_stride + at, 0, 2);
    }
}
// Once for each unit of each block of activations.
SIMD void KERNEL(fetch_step)(fetch *f) {
    for (f->at++; f->asked * f->steps < f->at * PANEL_ROWS; f->asked++) KERNEL(fetch_row)(&f->w, f->asked % 4 * (PANEL_ROWS / 4) + f->asked / 4);
}

// A block of activations (int8_pack.h), and where its outputs go.
#define inputs KERNEL(inputs)
typedef struct {
    const int8_t *q;     // [units][PACK_ROWS][unit]
    const float *params; // a unit's scales and sums [units][2][PACK_ROWS]
    float *out[PACK_ROWS];
    int count; // rows that exist
    int whole; // all of the panel's rows exist
    fetch *next;
} inputs;

// Up to four units of a remainder (int8_pack.h), one for each of its accumulators.
#define batch KERNEL(batch)
typedef struct {
    int remainder;    // as which it comes
    int k;            // units in the batch; 0 if the remainder has none
    int first, last;  // of the remainder's batches
    int64_t at, left; // the place of its first unit, and how many the remainder has from that on
} batch;

SIMD batch KERNEL(batch_at)(int remainder, int first, int64_t at, int64_t left) {
    return (batch){.remainder = remainder, .k = left < 4 ? (int)left : 4, .first = first, .last = left <= 4, .at = at, .left = left};
}
SIMD batch KERNEL(first_batch)(const pack_order *o) { return KERNEL(batch_at)(0, 1, 0, pack_units(o, 0)); }
SIMD batch KERNEL(next_batch)(const pack_order *o, batch b) {
    if (b.last) return KERNEL(batch_at)(b.remainder + 1, 1, b.at + b.k, pack_units(o, b.remainder + 1));
    return KERNEL(batch_at)(b.remainder, 0, b.at + 4, b.left - 4);
}

typedef void KERNEL(panel_function)(const panel *p, const inputs *x);

// tile_function: what multiplies panels of a weight.
#if ISA == ISA_AVX2
#include "int8_tile_avx2.h"
#else
#include "int8_tile.h"
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

// The block of activations from row m on, and its outputs from column n on.
static void KERNEL(inputs_from)(inputs *x, const pack_order *o, const void *packed, const matmul_rows *r, int64_t m, int64_t n, const panel *p) {
    const uint8_t *block = (const uint8_t *)packed + m / PACK_ROWS * pack_bytes(o->units, o->unit);
    x->whole = p->n == PANEL_ROWS;
    x->q = (const int8_t *)block;
    x->params = (const float *)(block + o->units * o->unit * PACK_ROWS);
    x->count = r->count - m < PACK_ROWS ? (int)(r->count - m) : PACK_ROWS;
    for (int i = 0; i < x->count; i++) {
        x->out[i] = r->out + matmul_out_row(r, m + i) * r->out_stride + n;
    }
}

// Rows [from, to) of the weight, a panel at a time, with every row of the input, which are packed.
// scratch holds a panel.
static void KERNEL(panel_rows)(const matmul_weight *w, int64_t from, int64_t to, const void *packed, const matmul_rows *r, void *scratch) {
    const pack_order order = pack_order_of(w->k, matmul_unit(w));
    KERNEL(panel_function) *const multiply = KERNEL(tile_function)(w);
    for (int64_t n = from; n < to; n += PANEL_ROWS) {
        const panel p = KERNEL(panel_from)(w, &order, n, to, scratch);
        fetch next = KERNEL(fetch_from)(w, &order, n + PANEL_ROWS, r->count);
        for (int64_t m = 0; m < r->count; m += PACK_ROWS) {
            inputs x = {.next = &next};
            KERNEL(inputs_from)(&x, &order, packed, r, m, n, &p);
            multiply(&p, &x);
        }
    }
}
