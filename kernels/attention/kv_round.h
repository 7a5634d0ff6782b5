// Rounding for the integer products (kv_dot.h): queries to 8 bits per group of K, weights to 15
// bits and a sign per tile and group of V. Included once per instruction set, before kv_dot.h.

// Queries are bytes, or 16 bits if products of bytes would saturate. 16-bit queries have dimensions
// 0, 2, 1, 3 of each four, to match the even and the odd bytes of a lane. Weights are 16 bits. NEON
// multiplies only bytes, so it has the high bytes of a tile and then the (signed) low bytes, with
// each four positions in the order of V_BYTE_OF_POSITION. V_FOUR(q) is the index of the q-th four
// weights of a strip. AVX2 keeps the order that the pack instructions produce.
#define WEIGHT_BYTES 2
#undef V_FOUR
#if ISA == ISA_AVX2
#define V_FOUR(q) ((q) / 2 + (q) % 2 * 2)
#else
#define V_FOUR(q) (q)
#endif
#undef QUERY_BYTES
#if ISA == ISA_VNNI || ISA == ISA_NEON
#define QUERY_BYTES 1
#else
#define QUERY_BYTES 2
#endif

// A group of a rounded query: its scale, the sum of its values, and the sum of its codes.
#define query_group KERNEL(query_group)
struct query_group { float scale, sum; int32_t codes; };

#define store_query KERNEL(store_query)
#define store_weights KERNEL(store_weights)

#define WEIGHT_TOP 32512.0f // 127 * 256, so that the high byte of a weight is at most 127

// store_query stores sixteen integral values. store_weights stores weights [i, i+32) of a tile from
// their values plus V_ROUNDER, and store_tile stores all weights of a tile.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI || ISA == ISA_AVX2
SIMD __m256i KERNEL(shorts)(f32x16 x) {
#if ISA == ISA_AVX2
    return _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)), 0xd8);
#else
    return _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x));
#endif
}
SIMD void store_query(uint8_t *q, f32x16 x) {
#if ISA == ISA_VNNI
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
#else
    const __m256i s = KERNEL(shorts)(x); // swap the second and the third of each four
    _mm256_storeu_si256(
        (__m256i *)q, _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(s, 0xd8), 0xd8));
#endif
}
#if ISA == ISA_AVX2
// Stores the weights of a tile. y has the weights plus V_ROUNDER. Returns the sum of the weights.
SIMD f32x16 KERNEL(store_tile)(uint8_t *weights, const f32x16 *y) {
    const __m256i zero = _mm256_castps_si256(_mm256_set1_ps(V_ROUNDER));
    __m256i a = _mm256_setzero_si256(), b = a;
#pragma GCC unroll 4
    for (int i = 0; i < TILE / 16; i++) {
        const __m256i low = _mm256_sub_epi32(_mm256_castps_si256(y[i].a), zero),
                      high = _mm256_sub_epi32(_mm256_castps_si256(y[i].b), zero);
        _mm256_storeu_si256((__m256i *)weights + i, _mm256_packs_epi32(low, high));
        a = _mm256_add_epi32(a, low), b = _mm256_add_epi32(b, high);
    }
    return (f32x16){_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)}; // exact
}
#else
SIMD void store_weights(uint8_t *weights, int64_t i, f32x16 x, f32x16 y) {
    static const uint16_t low_words[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
        30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    _mm512_storeu_si512(weights + 2 * i,
        _mm512_permutex2var_epi16(
            _mm512_castps_si512(x), _mm512_loadu_si512(low_words), _mm512_castps_si512(y)));
}
#endif
#if ISA == ISA_VNNI
// Stores the weights of a tile for the matrix unit (kv_amx.h): the signed high bytes, then the
// signed low bytes. Group q of four positions of strip s has index 4q+s, and its positions are in
// the order of V_BYTE_OF_POSITION. y has the weights plus V_ROUNDER. Returns the sum of the
// weights.
SIMD f32x16 KERNEL(store_bytes)(uint8_t *weights, const f32x16 *y) {
    const __m512i zero = _mm512_castps_si512(_mm512_set1_ps(V_ROUNDER)),
                  half = _mm512_set1_epi16(128), even = _mm512_set1_epi16(255);
    __m512i x[4], words[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) x[i] = _mm512_sub_epi32(_mm512_castps_si512(y[i]), zero);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) words[i] = _mm512_packs_epi32(x[2 * i], x[2 * i + 1]);
#define PICK(i) \
    _mm512_castps_si512( \
        _mm512_shuffle_ps(_mm512_castsi512_ps(words[0]), _mm512_castsi512_ps(words[1]), i))
    // Pairs of words: positions 0 and 1 of each four, and positions 2 and 3.
    const __m512i first = PICK(0x88), last = PICK(0xdd);
#undef PICK
#define MERGE(a, b) _mm512_ternarylogic_epi32(even, a, b, 0xca) // even bytes of a, odd bytes of b
    // The high byte compensates for the sign of the low byte.
    const __m512i first_up = _mm512_add_epi16(first, half), last_up = _mm512_add_epi16(last, half);
    _mm512_storeu_si512(weights, MERGE(_mm512_srli_epi16(first_up, 8), last_up));
    _mm512_storeu_si512(weights + TILE, MERGE(first, _mm512_slli_epi16(last, 8)));
#undef MERGE
    // exact
    return _mm512_cvtepi32_ps(
        _mm512_add_epi32(_mm512_add_epi32(x[0], x[1]), _mm512_add_epi32(x[2], x[3])));
}
#endif
#elif ISA == ISA_NEON
SIMD int16x8_t KERNEL(shorts)(f32x16 x, int half) {
    return vcombine_s16(
        vqmovn_s32(vcvtnq_s32_f32(x.v[2 * half])), vqmovn_s32(vcvtnq_s32_f32(x.v[2 * half + 1])));
}
SIMD void store_query(uint8_t *q, f32x16 x) {
    vst1q_s8(
        (int8_t *)q, vcombine_s8(vmovn_s16(KERNEL(shorts)(x, 0)), vmovn_s16(KERNEL(shorts)(x, 1))));
}
SIMD void KERNEL(store_limbs)(uint8_t *weights, int64_t i, f32x16 x) {
    static const uint8_t order[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
#define WORDS(i) vmovn_u32(vreinterpretq_u32_f32(x.v[i]))
    const int16x8_t a = vreinterpretq_s16_u16(vcombine_u16(WORDS(0), WORDS(1))),
                    b = vreinterpretq_s16_u16(vcombine_u16(WORDS(2), WORDS(3)));
#undef WORDS
    // The high byte compensates for the sign of the low byte.
    const int8x8_t low_a = vmovn_s16(a), low_b = vmovn_s16(b);
    const int8x8_t high_a = vshrn_n_s16(vsubq_s16(a, vmovl_s8(low_a)), 8),
                   high_b = vshrn_n_s16(vsubq_s16(b, vmovl_s8(low_b)), 8);
    const uint8x16_t to = vld1q_u8(order);
    vst1q_s8((int8_t *)weights + i, vqtbl1q_s8(vcombine_s8(high_a, high_b), to));
    vst1q_s8((int8_t *)weights + TILE + i, vqtbl1q_s8(vcombine_s8(low_a, low_b), to));
}
SIMD void store_weights(uint8_t *weights, int64_t i, f32x16 x, f32x16 y) {
    KERNEL(store_limbs)(weights, i, x);
    KERNEL(store_limbs)(weights, i + 16, y);
}
// Returns the sum of weights [from, to) of a tile.
SIMD int32_t weights_sum(const uint8_t *weights, int64_t from, int64_t to) {
    int32_t high = 0, low = 0;
    for (int64_t i = from; i < to; i += 16) {
        high += vaddlvq_s8(vld1q_s8((const int8_t *)weights + i));
        low += vaddlvq_s8(vld1q_s8((const int8_t *)weights + TILE + i));
    }
    return high * 256 + low;
}
#endif

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

// Computes for n vectors, 1 to 16, the factor scales[i] that makes the highest weight of a tile
// WEIGHT_TOP, and the value units[i] of one step of the scaled weights. The factor is 0 if all
// weights are negligible compared with the highest so far. highest has room for 16 values.
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
#if ISA != ISA_AVX2
        if (!matrix) count = v_add(count, v_sub(y[i], zero));
        if (!matrix && i % 2) store_weights(weights, 16 * (i - 1), y[i - 1], y[i]);
#endif
    }
#if ISA == ISA_AVX2
    count = KERNEL(store_tile)(weights, y);
#endif
#if ISA == ISA_VNNI
    if (matrix) count = KERNEL(store_bytes)(weights, y);
#endif
    sum = v_fma(count, v_set1(-code * group->top), sum);
    v_store(middle, v_fma(sum, v_set1(unit), v_load(middle)));
    return unit * group->top;
}
