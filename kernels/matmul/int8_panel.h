// Many rows of activations: a panel of PANEL_ROWS rows of the weight is unpacked side by side, four
// elements of each row in a lane, so that a lane's sum belongs to one output element and becomes a
// float once per unit. Included once per instruction set, after lanes.h and int8_pack.h.
//
// Units are in the order of int8_pack.h, in panels as in activations, so both are read from front
// to back. A panel is codes [steps of 4 elements][PANEL_ROWS][4], then scales and biases, float32
// [units][PANEL_ROWS]. Rows past the weight's last are undefined, and their results unused.

#define panel KERNEL(panel)

// Unpacks the first n rows of the weight. The last one replaces those that are missing.
SIMD void KERNEL(unpack)(const matmul_weight *w, const pack_order *o, int64_t n, const int mode,
                         const int bits, uint8_t *codes) {
    const int64_t per = 64 / o->unit, unit_bytes = o->unit * PANEL_ROWS;
    for (int64_t at = 0, chunk = 0; at < w->k; at += 64, chunk++) {
        // The chunk has sixteen steps.
        uint8_t *first8 = codes + pack_place(o, chunk * per) * unit_bytes;
        uint8_t *last8 = per == 1 ? first8 + 8 * PANEL_ROWS * 4
                                  : codes + pack_place(o, chunk * per + 1) * unit_bytes;
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
                    KERNEL(p_store)(
                        (step < 8 ? first8 : last8) + (step % 8 * PANEL_ROWS + first) * 4, x[i]);
                }
            }
        }
    }
}

// Transposes the floats of LANES rows into the units' places in `to`. Each vector has the floats of
// units [u, u+16) of a row.
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
            if (u + first + i < o->units)
                KERNEL(p_store)((uint8_t *)(to + pack_place(o, u + first + i) * PANEL_ROWS), x[i]);
    }
}

#if PANEL_SPLIT
#include "int8_split.h"
#else // codes of 4 bits and bfloat16 scales are unpacked as all others are
#define HAS_PAIRED_PARAMS 0
SIMD void KERNEL(params_bf16)(const uint8_t *const *rows, int64_t u, float *const *to) {}
SIMD void KERNEL(unpack_nibbles)(const matmul_weight *w, const pack_order *o, int64_t n,
                                 const int mode, uint8_t *codes) {
    KERNEL(unpack)(w, o, n, mode, 4, codes);
}
#endif

// The scales and biases of the first n rows of the weight.
static void KERNEL(unpack_params)(const matmul_weight *w, const pack_order *o, int64_t n,
                                  float *scales, float *biases) {
    for (int first = 0; first < PANEL_ROWS; first += LANES) {
        const uint8_t *s_rows[LANES], *b_rows[LANES];
        for (int i = 0; i < LANES; i++) {
            const int64_t row = first + i < n ? first + i : n - 1;
            s_rows[i] = w->scales + row * w->scales_stride;
            b_rows[i] = w->mode == MODE_AFFINE ? w->biases + row * w->biases_stride : NULL;
        }
        for (int64_t u = 0; u < o->units; u += 16) {
            if (HAS_PAIRED_PARAMS && w->mode == MODE_AFFINE && w->dtype == DTYPE_BF16 &&
                w->group != 128 && o->units - u >= 16) {
                float *s_to[16], *b_to[16];
                for (int i = 0; i < 16; i++) {
                    const int64_t at = pack_place(o, u + i) * PANEL_ROWS + first;
                    s_to[i] = scales + at, b_to[i] = biases + at;
                }
                KERNEL(params_bf16)(s_rows, u, s_to);
                KERNEL(params_bf16)(b_rows, u, b_to);
                continue;
            }
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

static void KERNEL(unpack_panel)(const matmul_weight *w, const pack_order *o, int64_t n,
                                 uint8_t *codes, float *scales, float *biases) {
    switch (w->mode == MODE_MXFP4 ? 0 : w->bits) {
    case 0: KERNEL(unpack_nibbles)(w, o, n, MODE_MXFP4, codes); break;
    case 4: KERNEL(unpack_nibbles)(w, o, n, MODE_AFFINE, codes); break;
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
    const float *scales, *biases; // biases is NULL for MXFP4
    const pack_order *order;
    int n; // rows of the weight that exist
} panel;

// Prefetches the next panel's packed weights while this one is multiplied: a row at a time, spread
// evenly over the products, since many requests at once would wait for each other. Consecutive
// requests are for rows far apart, so that the processor's own prefetcher works in several pages at
// once, without the few buffers that a core has for its loads.
#define prefetcher KERNEL(prefetcher)
typedef struct {
    matmul_weight w;   // starts with the panel's first row
    int64_t asked;     // rows that were prefetched
    int64_t at, steps; // products of units that were done, and that there are
} prefetcher;
SIMD prefetcher KERNEL(prefetch_from)(const matmul_weight *w, const pack_order *o, int64_t n,
                                      int64_t inputs) {
    return (prefetcher){.w = matmul_weight_from(w, n),
                        .steps = o->units * ((inputs + PACK_ROWS - 1) / PACK_ROWS)};
}
SIMD void KERNEL(prefetch_row)(const matmul_weight *w, int64_t row) {
    const int64_t code_bytes = w->k / 8 * w->bits,
                  param_bytes = w->mode == MODE_MXFP4 ? w->k / 32 : w->k / w->group * 2;
    for (int64_t at = 0; at < code_bytes; at += 64)
        __builtin_prefetch(w->data + row * w->data_stride + at, 0, 2);
    for (int64_t at = 0; at < param_bytes; at += 64) {
        __builtin_prefetch(w->scales + row * w->scales_stride + at, 0, 2);
        if (w->biases) __builtin_prefetch(w->biases + row * w->biases_stride + at, 0, 2);
    }
}
// Called once for each unit of each block of activations.
SIMD void KERNEL(prefetch_step)(prefetcher *f) {
    for (f->at++; f->asked * f->steps < f->at * PANEL_ROWS; f->asked++)
        KERNEL(prefetch_row)(&f->w, f->asked % 4 * (PANEL_ROWS / 4) + f->asked / 4);
}

// A block of activations (int8_pack.h), and where its outputs go.
#define inputs KERNEL(inputs)
typedef struct {
    const int8_t *q;     // [units][PACK_ROWS][unit]
    const float *params; // a unit's scales and sums [units][2][PACK_ROWS]
    float *out[PACK_ROWS];
    int count; // rows that exist
    int whole; // all of the panel's rows exist
    prefetcher *next;
} inputs;

// Up to four units of a remainder (int8_pack.h), one for each of its accumulators.
#define batch KERNEL(batch)
typedef struct {
    int remainder;    // its number in the order of remainders
    int k;            // units in the batch; 0 if the remainder has none
    int first, last;  // it is the first or last batch of its remainder
    int64_t at, left; // index of its first unit, and the units of the remainder that are left
} batch;

SIMD batch KERNEL(batch_at)(int remainder, int first, int64_t at, int64_t left) {
    return (batch){.remainder = remainder,
                   .k = left < 4 ? (int)left : 4,
                   .first = first,
                   .last = left <= 4,
                   .at = at,
                   .left = left};
}
SIMD batch KERNEL(first_batch)(const pack_order *o) {
    return KERNEL(batch_at)(0, 1, 0, pack_units(o, 0));
}
SIMD batch KERNEL(next_batch)(const pack_order *o, batch b) {
    if (b.last)
        return KERNEL(batch_at)(b.remainder + 1, 1, b.at + b.k, pack_units(o, b.remainder + 1));
    return KERNEL(batch_at)(b.remainder, 0, b.at + 4, b.left - 4);
}

typedef void KERNEL(panel_function)(const panel *p, const inputs *x);

// Both define tile_function, which chooses the panel_function for a weight.
#if ISA == ISA_AVX2
#include "int8_tile_avx2.h"
#else
#include "int8_tile.h"
#endif

// Unpacks the panel that begins at row n of the weight, which ends at row `to`, into scratch.
static panel KERNEL(panel_from)(const matmul_weight *w, const pack_order *o, int64_t n, int64_t to,
                                void *scratch) {
    const matmul_weight part = matmul_weight_from(w, n);
    float *scales = (float *)((uint8_t *)scratch + o->units * o->unit * PANEL_ROWS),
          *biases = scales + o->units * PANEL_ROWS;
    panel p = {.codes = scratch,
               .scales = scales,
               .biases = w->mode == MODE_AFFINE ? biases : NULL,
               .order = o};
    p.n = to - n < PANEL_ROWS ? (int)(to - n) : PANEL_ROWS;
    KERNEL(unpack_panel)(&part, o, p.n, scratch, scales, biases);
    return p;
}

// Sets x to the block of activations that starts with row m, and to its outputs, which start with
// column n.
static void KERNEL(inputs_from)(inputs *x, const pack_order *o, const void *packed,
                                const matmul_rows *r, int64_t m, int64_t n, const panel *p) {
    const uint8_t *block = (const uint8_t *)packed + m / PACK_ROWS * pack_bytes(o->units, o->unit);
    x->whole = p->n == PANEL_ROWS;
    x->q = (const int8_t *)block;
    x->params = (const float *)(block + o->units * o->unit * PACK_ROWS);
    x->count = r->count - m < PACK_ROWS ? (int)(r->count - m) : PACK_ROWS;
    for (int i = 0; i < x->count; i++) {
        x->out[i] = r->out + matmul_out_row(r, m + i) * r->out_stride + n;
    }
}

// Multiplies rows [from, to) of the weight, a panel at a time, with every row of the packed input.
// scratch has room for a panel.
static void KERNEL(panel_rows)(const matmul_weight *w, int64_t from, int64_t to, const void *packed,
                               const matmul_rows *r, void *scratch) {
    const pack_order order = pack_order_of(w->k, matmul_unit(w));
    KERNEL(panel_function) *const multiply = KERNEL(tile_function)(w);
    for (int64_t n = from; n < to; n += PANEL_ROWS) {
        const panel p = KERNEL(panel_from)(w, &order, n, to, scratch);
        prefetcher next = KERNEL(prefetch_from)(w, &order, n + PANEL_ROWS, r->count);
        for (int64_t m = 0; m < r->count; m += PACK_ROWS) {
            inputs x = {.next = &next};
            KERNEL(inputs_from)(&x, &order, packed, r, m, n, &p);
            multiply(&p, &x);
        }
    }
}
