// Many rows of activations, packed for panels of weights (int8_panel.h): blocks of PACK_ROWS rows,
// each with its units in the order in which they are multiplied. A block is
//
//     codes   int8    [units][PACK_ROWS][unit]
//     params  float32 [units][2][PACK_ROWS]
//
// where params are the scales and the factors of the weight's biases. These factors are sums of
// activations, or for MXFP4 sums of codes. Rows past the last are undefined, and their results are
// not used. The elements of a unit are in order, or the even ones come before the odd ones
// (PANEL_SPLIT in policy.h).
//
// Unit u is added to accumulator u % 16, and v_sum's tree first adds up accumulators r, r+4, r+8
// and r+12: those of the units with u % 4 = r. So units are grouped by this remainder, in order.
// Four consecutive units belong to the four accumulators of the remainder. Remainders are in the
// order of the tree: 0, 2, 1, 3.
#pragma once
#include <string.h>
#include "matmul.h"

#define PACK_ROWS MATMUL_PACK_ROWS

typedef struct {
    int64_t units, unit; // the number of units, and the elements of a unit
    int64_t first_of[4]; // the index of the first unit of each remainder
} pack_order;

// The remainder number i, and the number of units that have it.
static inline int64_t pack_remainder(int i) { return (i & 1) << 1 | i >> 1; }
static inline int64_t pack_units(const pack_order *o, int i) {
    return (o->units + 3 - pack_remainder(i)) / 4;
}

static inline pack_order pack_order_of(int64_t k, int64_t unit) {
    pack_order o = {.units = k / unit, .unit = unit};
    for (int64_t i = 0, place = 0; i < 4; i++) {
        o.first_of[pack_remainder((int)i)] = place;
        place += pack_units(&o, (int)i);
    }
    return o;
}

// The index of unit u in a block. A unit past the last has the index of the end.
static inline int64_t pack_place(const pack_order *o, int64_t u) {
    return u < o->units ? o->first_of[u % 4] + u / 4 : o->units;
}

static inline int64_t pack_bytes(int64_t units, int64_t unit) {
    return units * PACK_ROWS * (unit + 8);
}

// Packs blocks [from, to) of the inputs of rows r.
static inline void pack_rows(int64_t k, const struct matmul_packing *p, const matmul_rows *r,
                             int64_t from, int64_t to, const int8_t *q, const float *row_params,
                             void *packed) {
    const int64_t unit = p->unit, sums = p->sums, split = p->split;
    const pack_order o = pack_order_of(k, unit);
    const int64_t c = matmul_padded_chunks(k);
    for (int64_t b = from; b < to; b++) {
        int8_t *codes = (int8_t *)packed + b * pack_bytes(o.units, unit);
        float *params = (float *)(codes + o.units * PACK_ROWS * unit);
        for (int64_t i = 0; i < PACK_ROWS && b * PACK_ROWS + i < r->count; i++) {
            const int64_t x = matmul_out_row(r, b * PACK_ROWS + i) / r->per_input;
            const int8_t *row = q + x * matmul_row_bytes(k) + (split > 0) * c * 64;
            const float *scale = row_params + x * MATMUL_PARAMS * c + (unit == 32 ? c : 0),
                        *sum = row_params + (x * MATMUL_PARAMS + sums) * c;
            for (int64_t u = 0; u < o.units; u++) {
                const int64_t place = pack_place(&o, u);
                int8_t *to_codes = codes + (place * PACK_ROWS + i) * unit;
                const int64_t at = u * unit, span = 64 * split;
                const int64_t even = split ? at / span * span + at % span / 2 : at;
                const int64_t odd = even + (split ? span : unit) / 2;
                if (unit == 64)
                    memcpy(to_codes, row + even, 32), memcpy(to_codes + 32, row + odd, 32);
                else memcpy(to_codes, row + even, 16), memcpy(to_codes + 16, row + odd, 16);
                params[place * 2 * PACK_ROWS + i] = scale[u];
                params[(place * 2 + 1) * PACK_ROWS + i] = sum[u];
            }
        }
    }
}
