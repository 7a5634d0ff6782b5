// Rounding for the integer products (kv_dot.h). Queries become 8-bit codes, with a scale for each
// group of K. Weights become 15 bits and a sign, with a scale for each tile and group of V.
// Included once per instruction set, before kv_dot.h.

#include "kv_ints.h"

// A group of a rounded query: its scale, the sum of its values, and the sum of its codes.
#define query_group KERNEL(query_group)
struct query_group { float scale, sum; int32_t codes; };

// Rounds the d values of a query. If the scale of a group is not a normal number, its codes are
// zeros. An infinite or NaN element makes the scale of its group NaN, and with it every score.
#define round_query KERNEL(round_query)
SIMD void round_query(
    const float *x, int64_t group, int64_t d, uint8_t *codes, struct query_group *out) {
    for (int64_t at = 0; at < d; at += group, out++) {
        f32x16 top = v_zero(), nan = v_zero(), sum = v_zero();
        for (int64_t i = 0; i < group; i += 16) {
            top = v_max(top, v_abs(v_load(x + at + i)));
            nan = v_fma(v_load(x + at + i), v_zero(), nan);
        }
        const float s = v_hmax(top) / 127.0f + v_sum(nan);
        const int usable = s >= 0x1p-126f;
        for (int64_t i = 0; i < group; i += 16) {
            f32x16 y = usable ? v_round(v_div(v_load(x + at + i), v_set1(s))) : v_zero();
            sum = v_add(sum, y);
            store_query(codes + (at + i) * QUERY_BYTES, y);
        }
        const float total = v_sum(sum); // exact
        *out = (struct query_group){.scale = s, .sum = s * total, .codes = (int32_t)total};
    }
}

// Takes the highest weight highest[i] of a tile for each of n vectors, 1 to 16. Stores in scales[i]
// the factor that makes this weight WEIGHT_TOP, and in units[i] the value of one step of the scaled
// weights. The factor is 0 if all weights are negligible compared with the highest so far. highest
// must have room for 16 values; those from n on are overwritten.
#define weights_units KERNEL(weights_units)
SIMD void weights_units(float *highest, int64_t n, float *scales, float *units) {
    float up[16], down[16];
    for (int64_t i = n; i < 16; i++) highest[i] = 1;
    v_store(up, v_div(v_set1(WEIGHT_TOP), v_load(highest)));
    v_store(down, v_div(v_load(highest), v_set1(WEIGHT_TOP)));
    for (int64_t i = 0; i < n; i++) {
        const int usable = highest[i] > 1e-30f;
        scales[i] = usable ? up[i] : 0;
        units[i] = usable ? down[i] : highest[i] * 0;
    }
}

// Scales the weights of a tile at the positions [from, to) that the row sees, and sets all others
// to zero. Returns the value of one step.
#define scale_weights KERNEL(scale_weights)
SIMD float scale_weights(float *w, int64_t from, int64_t to) {
    const int64_t first = from & ~15, end = (to + 15) & ~15;
    f32x16 top = v_zero();
    for (int64_t i = first; i < end; i += 16) top = v_max(top, v_load(w + i));
    float highest[16], factor, unit;
    highest[0] = v_hmax(top);
    weights_units(highest, 1, &factor, &unit);
    const f32x16 scale = v_set1(factor);
    for (int64_t i = 0; i < first; i += 16) v_store(w + i, v_zero());
    for (int64_t i = first; i < end; i += 16) v_store(w + i, v_mul(v_load(w + i), scale));
    for (int64_t i = end; i < TILE; i += 16) v_store(w + i, v_zero());
    return unit;
}

// A group of V at the positions of a tile that a row sees: the scales relative to the largest
// magnitude, top, and the values of the middle code. All other positions are zero.
#define value_group KERNEL(value_group)
struct value_group { float scale[TILE], middle[TILE], top; };

// Reads group g of V at the positions [from, to) of a tile.
#define read_group KERNEL(read_group)
SIMD void read_group(struct value_group *out, const struct kv_format *f,
    const uint8_t *const *strips, int64_t g, int64_t groups, const int64_t from, const int64_t to) {
    const f32x16 code = v_set1((float)(1 << (f->bits - 1)));
#pragma GCC unroll 4
    for (int64_t i = from & ~15; i < to; i += STRIP) {
        const f32x16 s = kv_scale(strips[i / STRIP], g);
        v_store(out->scale + i, s);
        v_store(out->middle + i, v_fma(code, s, kv_bias(strips[i / STRIP], g, groups, f->zero, s)));
    }
    for (int64_t i = 0; i < from; i++) out->scale[i] = out->middle[i] = 0;
    for (int64_t i = to; i < TILE; i++) out->scale[i] = out->middle[i] = 0;
    f32x16 top = v_zero(), nan = v_zero();
#pragma GCC unroll 4
    for (int64_t i = 0; i < TILE; i += 16) {
        top = v_max(top, v_abs(v_load(out->scale + i)));
        nan = v_fma(v_load(out->scale + i), v_zero(), nan);
    }
    out->top = v_hmax(top) + v_sum(nan);
    const f32x16 inverse = v_set1(out->top > 0 ? 1.0f / out->top : 0);
#pragma GCC unroll 4
    for (int64_t i = 0; i < TILE; i += 16)
        v_store(out->scale + i, v_mul(v_load(out->scale + i), inverse));
}

// Multiplies the scaled weights of a tile by the scales of a group and rounds the products to
// weights of the group's codes. unit is the value of one step of the scaled weights. Returns the
// value of one step of the rounded weights. With c the middle code,
//
//     sum of w (code s + bias) = sum of (w s) (code - c) + sum of w (c s + bias),
//
// and only w s is rounded, so the error is multiplied by distances from the middle. The terms that
// do not depend on codes are added to sixteen lanes of middle: the second sum minus c times the
// rounded weights. matrix, a constant, selects the layout for the matrix unit.
#define round_weights KERNEL(round_weights)
SIMD float round_weights(const struct value_group *group, const float *w, float unit, float code,
    const int matrix, uint8_t *restrict weights, float *restrict middle) {
    const f32x16 zero = v_set1(V_ROUNDER);
    f32x16 sum = v_zero(), count = v_zero(), y[TILE / 16];
#pragma GCC unroll 4
    for (int i = 0; i < TILE / 16; i++) {
        const f32x16 x = v_load(w + 16 * i);
        y[i] = v_fma(x, v_load(group->scale + 16 * i), zero);
        sum = v_fma(x, v_load(group->middle + 16 * i), sum);
#if STORE_PAIRS
        if (!matrix) count = v_add(count, v_sub(y[i], zero));
        if (!matrix && i % 2) store_weights(weights, 16 * (i - 1), y[i - 1], y[i]);
#endif
    }
    if (!STORE_PAIRS || matrix) count = store_tile(weights, y);
    sum = v_fma(count, v_set1(-code * group->top), sum);
    v_store(middle, v_fma(sum, v_set1(unit), v_load(middle)));
    return unit * group->top;
}
