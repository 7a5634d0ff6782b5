// Scores become weights: the online softmax of a tile (Milakov and Gimelshein 2018), relative to the highest score so far, which a vector's
// record keeps beside its sums. Included once per instruction set, after kv_round.h.
//
// A record is [D] sums, the highest score, and the sum of weights. Middles (kv_tile.h) belong to it and are scaled with it.

#define WEIGH_AT_ONCE 16 // vectors

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

// A record (and its middles, n floats) takes in weights that add up to sum, relative to the highest score so far; scale is e^(the highest
// before - highest).
#define take_in KERNEL(take_in)
SIMD void take_in(float highest, float scale, float sum, float *record, int64_t d, float *middles, int64_t n) {
    if (highest == record[d]) {
        record[d + 1] += sum;
        return;
    }
    record[d] = highest;
    record[d + 1] = record[d + 1] * scale + sum;
    rescale(record, d, scale);
    rescale(middles, n, scale);
}

// The scores of one vector for positions [from, to) of a tile become weights relative to the highest score so far, and its
// record (and its middles, n floats) is brought up to it. s holds whole vectors of 16; those outside [from, to) become zero weights,
// which change no sum.
#define weigh KERNEL(weigh)
SIMD void weigh(float *s, int64_t from, int64_t to, float *record, int64_t d, float *middles, int64_t n) {
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
    take_in(highest, highest == record[d] ? 1 : exp1(record[d] - highest), v_sum(sum), record, d, middles, n);
}

#define v_sums16 KERNEL(v_sums16)
#define v_hmaxes16 KERNEL(v_hmaxes16)
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
// Sixteen trees of v_sum or v_hmax together, each step of two vectors in one: a quarter of the instructions.
#define TREES(op) \
    __m512 y[8], z[4], u[2]; \
    for (int i = 0; i < 8; i++) { \
        const f32x16 a = x[8 * (i % 2) + i / 2], b = x[8 * (i % 2) + 4 + i / 2]; \
        y[i] = op(_mm512_shuffle_f32x4(a, b, 0xee), _mm512_shuffle_f32x4(a, b, 0x44)); \
    } \
    for (int i = 0; i < 4; i++) z[i] = op(_mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0xdd), _mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0x88)); \
    for (int i = 0; i < 2; i++) u[i] = op(_mm512_shuffle_ps(z[2 * i], z[2 * i + 1], 0x44), _mm512_shuffle_ps(z[2 * i], z[2 * i + 1], 0xee)); \
    return op(_mm512_shuffle_ps(u[0], u[1], 0x88), _mm512_shuffle_ps(u[0], u[1], 0xdd))
SIMD f32x16 v_sums16(const f32x16 *x) { TREES(v_add); }
SIMD f32x16 v_hmaxes16(const f32x16 *x) { TREES(v_max); }
#undef TREES
#elif ISA == ISA_AVX2
// Eight of these trees together, each step of two vectors in one.
#define TREES(x, op) \
    __m256 y[4], z[2]; \
    for (int i = 0; i < 4; i++) { \
        const __m256 a = op((x)[i].a, (x)[i].b), b = op((x)[i + 4].a, (x)[i + 4].b); \
        y[i] = op(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)); \
    } \
    for (int i = 0; i < 2; i++) z[i] = op(_mm256_shuffle_ps(y[2 * i], y[2 * i + 1], 0x44), _mm256_shuffle_ps(y[2 * i], y[2 * i + 1], 0xee)); \
    return op(_mm256_shuffle_ps(z[0], z[1], 0x88), _mm256_shuffle_ps(z[0], z[1], 0xdd))
SIMD __m256 KERNEL(sums8)(const f32x16 *x) { TREES(x, _mm256_add_ps); }
SIMD __m256 KERNEL(hmaxes8)(const f32x16 *x) { TREES(x, _mm256_max_ps); }
// The higher of magnitudes by their bits: one that is undefined is above all others.
SIMD __m256 KERNEL(higher)(__m256 a, __m256 b) { return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b))); }
SIMD __m256 KERNEL(highest8)(const f32x16 *x) { TREES(x, KERNEL(higher)); }
#undef TREES
SIMD f32x16 v_sums16(const f32x16 *x) { return (f32x16){KERNEL(sums8)(x), KERNEL(sums8)(x + 8)}; }
SIMD f32x16 v_hmaxes16(const f32x16 *x) { return (f32x16){KERNEL(hmaxes8)(x), KERNEL(hmaxes8)(x + 8)}; }
#else
SIMD f32x16 v_sums16(const f32x16 *x) {
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = v_sum(x[i]);
    return v_load(y);
}
SIMD f32x16 v_hmaxes16(const f32x16 *x) {
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = v_hmax(x[i]);
    return v_load(y);
}
#endif

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

// weigh for n vectors that see the whole tile, 1 to WEIGH_AT_ONCE: nearly always. If units is not null, their weights are scaled for the
// integer products as well (scale_weights), and units take what one is worth.
#define weigh_whole KERNEL(weigh_whole)
static void weigh_whole(float *s, int64_t count, float *records, int64_t record, int64_t d, float *middles, int64_t n, float *units) {
    f32x16 x[WEIGH_AT_ONCE], y[WEIGH_AT_ONCE];
    float highest[WEIGH_AT_ONCE] = {0}, before[WEIGH_AT_ONCE] = {0}, sums[WEIGH_AT_ONCE], scales[WEIGH_AT_ONCE];
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
        for (int i = 0; i < TILE / 16; i++) v_store(s + r * TILE + 16 * i, e[i] = v_exp(v_sub(v_load(s + r * TILE + 16 * i), top)));
        x[r] = y[r] = v_zero();
#pragma GCC unroll 4
        for (int i = 0; i < TILE / 16; i++) x[r] = v_add(x[r], e[i]), y[r] = v_max(y[r], e[i]);
    }
    each_sum(x, count, sums);
    v_store(scales, v_exp(v_sub(v_load(before), v_load(highest))));
    for (int64_t r = 0; r < count; r++) take_in(highest[r], scales[r], sums[r], records + r * record, d, middles + r * n, n);
    if (!units) return;
    each_hmax(y, count, highest);
    weights_units(highest, count, scales, units);
    for (int64_t r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i += 16) v_store(s + r * TILE + i, v_mul(v_load(s + r * TILE + i), v_set1(scales[r])));
}
