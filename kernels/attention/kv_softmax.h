// Turns the scores of a tile into weights by online softmax (Milakov and Gimelshein 2018). Weights
// are relative to the highest score so far. Included once per instruction set, after kv_round.h.
//
// The record of a vector is [value_dim] sums, the highest score, and the sum of weights. The
// middles of the vector (kv_tile.h) are rescaled together with its record.

#define WEIGH_AT_ONCE 16 // vectors at a time

#define exp1 KERNEL(exp1)
SIMD float exp1(float x) {
    float y[16];
    v_store(y, v_exp(v_set1(x)));
    return y[0];
}

#define rescale KERNEL(rescale)
SIMD void rescale(float *x, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i += 16) v_store(x + i, v_mul(v_load(x + i), v_set1(scale)));
}

// Replaces the scores s [vectors][TILE] of positions [from, to) of a tile, both multiples of 16, by
// cap * tanh(s / cap). It runs before the mask, so scores that are not seen may be anything.
#define cap_scores KERNEL(cap_scores)
static __attribute__((noinline)) void cap_scores(
    float cap, float *s, int64_t vectors, int64_t from, int64_t to) {
    const f32x16 most = v_set1(cap), inverse = v_set1(1 / cap);
    for (int64_t r = 0; r < vectors; r++, s += TILE)
        for (int64_t i = from; i < to; i += 16)
            v_store(s + i, v_mul(most, v_tanh(v_mul(v_load(s + i), inverse))));
}

// Adds weights to a record. highest is the new highest score. sum is the sum of the new weights,
// which are relative to highest. scale is e^(previous highest - highest). middles has n floats.
#define update_record KERNEL(update_record)
SIMD void update_record(
    float highest, float scale, float sum, float *record, int64_t d, float *middles, int64_t n) {
    if (highest == record[d]) {
        record[d + 1] += sum;
        return;
    }
    record[d] = highest;
    record[d + 1] = record[d + 1] * scale + sum;
    rescale(record, d, scale);
    rescale(middles, n, scale);
}

// Turns the scores s of one vector for positions [from, to) of a tile into weights relative to the
// highest score so far, and updates its record and its middles (n floats). Scores outside [from,
// to) in the same groups of 16 become zero weights, which change no sum.
#define weigh KERNEL(weigh)
SIMD void weigh(
    float *s, int64_t from, int64_t to, float *record, int64_t d, float *middles, int64_t n) {
    const int64_t first = from & ~15, end = (to + 15) & ~15;
    for (int64_t i = first; i < from; i++) s[i] = -INFINITY;
    for (int64_t i = to; i < end; i++) s[i] = -INFINITY;
    f32x16 top = v_set1(record[d]);
    for (int64_t i = first; i < end; i += 16) top = v_max(top, v_load(s + i));
    const float highest = v_hmax(top);
    top = v_set1(highest);
    for (int64_t i = first; i < end; i += 16) v_store(s + i, v_exp(v_sub(v_load(s + i), top)));
    for (int64_t i = first; i < from; i++) s[i] = 0;
    for (int64_t i = to; i < end; i++) s[i] = 0;
    f32x16 sum = v_zero();
    for (int64_t i = first; i < end; i += 16) sum = v_add(sum, v_load(s + i));
    update_record(highest, highest == record[d] ? 1 : exp1(record[d] - highest), v_sum(sum), record,
        d, middles, n);
}

// v_sum or v_hmax of each of n vectors, 1 to 16.
#define each_sum KERNEL(each_sum)
#define each_hmax KERNEL(each_hmax)
SIMD void each_sum(f32x16 *x, int64_t n, float *y) {
    if (n <= 4) {
        for (int64_t i = 0; i < n; i++) y[i] = v_sum(x[i]);
        return;
    }
    for (int64_t i = n; i < 16; i++) x[i] = v_zero();
    v_store(y, v_sums16(x));
}
SIMD void each_hmax(f32x16 *x, int64_t n, float *y) {
    if (n <= 4) {
        for (int64_t i = 0; i < n; i++) y[i] = v_hmax(x[i]);
        return;
    }
    for (int64_t i = n; i < 16; i++) x[i] = v_zero();
    v_store(y, v_hmaxes16(x));
}

// Does the same as weigh for the common case: `count` vectors, 1 to WEIGH_AT_ONCE, that all see the
// whole tile. If units is not null, it also scales the weights for integer products, as
// scale_weights does, and stores the value of one step of each vector's weights in units.
#define weigh_whole KERNEL(weigh_whole)
static void weigh_whole(float *s, int64_t count, float *records, int64_t record, int64_t d,
    float *middles, int64_t n, float *units) {
    f32x16 x[WEIGH_AT_ONCE], y[WEIGH_AT_ONCE];
    float highest[WEIGH_AT_ONCE] = {0}, before[WEIGH_AT_ONCE] = {0}, sums[WEIGH_AT_ONCE],
          scales[WEIGH_AT_ONCE];
    for (int64_t r = 0; r < count; r++) {
        x[r] = v_set1(before[r] = records[r * record + d]);
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i += 16) x[r] = v_max(x[r], v_load(s + r * TILE + i));
    }
    each_hmax(x, count, highest);
    for (int64_t r = 0; r < count; r++) {
        const f32x16 top = v_set1(highest[r]);
        f32x16 e[TILE / 16];
#pragma GCC unroll 4
        for (int i = 0; i < TILE / 16; i++)
            v_store(s + r * TILE + 16 * i, e[i] = v_exp(v_sub(v_load(s + r * TILE + 16 * i), top)));
        x[r] = y[r] = v_zero();
#pragma GCC unroll 4
        for (int i = 0; i < TILE / 16; i++) x[r] = v_add(x[r], e[i]), y[r] = v_max(y[r], e[i]);
    }
    each_sum(x, count, sums);
    v_store(scales, v_exp(v_sub(v_load(before), v_load(highest))));
    for (int64_t r = 0; r < count; r++)
        update_record(highest[r], scales[r], sums[r], records + r * record, d, middles + r * n, n);
    if (!units) return;
    each_hmax(y, count, highest);
    weights_units(highest, count, scales, units);
    for (int64_t r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i += 16)
            v_store(s + r * TILE + i, v_mul(v_load(s + r * TILE + i), v_set1(scales[r])));
}
