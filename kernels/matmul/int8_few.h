// Few rows of activations: weights are unpacked in registers, row by row, once for up to FEW_ROWS
// of them. Sixteen units give sixteen integers, side by side as their scales lie in memory, by
// adding vectors pairwise while they are transposed. Included once per instruction set, after
// affine.h.
//
// Codes of 4 bits are taken apart without putting them into order: low halves of bytes are the even
// elements, high halves the odd ones, and round.c keeps the activations in that order too. What
// integers add up to does not depend on it.

#define lanes KERNEL(lanes)
#define l_add KERNEL(l_add)
#define l_zero KERNEL(l_zero)
#define l_merge KERNEL(l_merge)
#define dots16 KERNEL(dots16)
#define few_tile KERNEL(few_tile)

// Rows of activations up to which this way is the faster one, and how many share an unpacked
// weight.
#undef FEW_ROWS
#undef LANES
#undef FEW
#if ISA == ISA_AVX2 || ISA == ISA_VNNI
#define FEW 4
#else
#define FEW 8
#endif
#define FEW_ROWS 4

// lanes: LANES sums of 32 bits. l_merge adds within a and b so that what belongs to a unit comes
// together: after levels 1 and 2 a quarter of the register has a lane for each of four units,
// levels 3 and 4 join quarters. On AVX-512 sums that fit 16 bits are added up to level `narrow` by
// packing and one multiply-add, in place of two permutations and an addition. On AVX2 `narrow` says
// how many vectors of sums fit 16 bits when they are added up: 4 or 2, or 1 if they have 32 bits
// from the first on. It begins with narrow ones for codes of 4 bits, and level 2 widens them.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#define LANES 16
typedef __m512i lanes;
SIMD lanes l_zero(void) { return _mm512_setzero_si512(); }
SIMD lanes l_add(lanes a, lanes b) { return _mm512_add_epi32(a, b); }
SIMD lanes l_merge(lanes a, lanes b, const int level, const int narrow) {
    // a's lanes 0+1 and 2+3 of a quarter, then b's
    if (level <= narrow) return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1));
    switch (level) {
    case 1: return l_add(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    case 2:
        if (narrow == 0) return l_add(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        const __m512 c = _mm512_castsi512_ps(a), d = _mm512_castsi512_ps(b);
        return l_add(_mm512_castps_si512(_mm512_shuffle_ps(c, d, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(c, d, 0xdd)));
    }
    return l_add(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}
// Units in order, after a register held 1, 2 or 4 of them at first.
SIMD lanes KERNEL(l_order)(lanes x, const int units) {
    if (units == 2) return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), x);
    if (units == 4) return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
    return x;
}
#if ISA == ISA_VNNI
SIMD lanes KERNEL(l_dot)(lanes acc, __m512i c, __m512i q, const int wide) { return (void)wide, _mm512_dpbusd_epi32(acc, c, q); }
#else
// maddubs adds two products in 16 bits: safe for codes up to 128, so the top bit of wide ones goes
// apart.
SIMD lanes KERNEL(l_dot7)(lanes acc, __m512i c, __m512i q) { return l_add(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(c, q), _mm512_set1_epi16(1))); }
SIMD lanes KERNEL(l_dot)(lanes acc, __m512i c, __m512i q, const int wide) {
    if (!wide) return KERNEL(l_dot7)(acc, c, q);
    __m512i top = _mm512_set1_epi8((char)128);
    return KERNEL(l_dot7)(KERNEL(l_dot7)(acc, _mm512_andnot_si512(top, c), q), _mm512_and_si512(top, c), q);
}
#endif

#elif ISA == ISA_AVX2
#define LANES 8
typedef __m256i lanes;
SIMD lanes l_zero(void) { return _mm256_setzero_si256(); }
SIMD lanes l_add(lanes a, lanes b) { return _mm256_add_epi32(a, b); }
SIMD lanes KERNEL(l_widen)(lanes a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }
SIMD lanes l_merge(lanes a, lanes b, const int level, const int narrow) {
    if (level == 1) { // halves of quarters
        const lanes x = _mm256_blend_epi32(a, b, 0xcc), y = _mm256_alignr_epi8(b, a, 8);
        return narrow > 1 ? _mm256_add_epi16(x, y) : l_add(x, y);
    }
    if (level == 2) {
        if (narrow == 2) a = KERNEL(l_widen)(a), b = KERNEL(l_widen)(b);
        const __m256 c = _mm256_castsi256_ps(a), d = _mm256_castsi256_ps(b);
        const lanes x = _mm256_castps_si256(_mm256_shuffle_ps(c, d, 0x88)), y = _mm256_castps_si256(_mm256_shuffle_ps(c, d, 0xdd));
        return narrow == 4 ? KERNEL(l_widen)(_mm256_add_epi16(x, y)) : l_add(x, y);
    }
    return l_add(_mm256_blend_epi32(a, b, 0xf0), _mm256_permute2x128_si256(a, b, 0x21));
}
SIMD lanes KERNEL(l_order)(lanes x, const int units) {
    return units == 2 ? _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) : x;
}
SIMD lanes KERNEL(l_dot7)(lanes acc, __m256i c, __m256i q) { return l_add(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(c, q), _mm256_set1_epi16(1))); }
SIMD lanes KERNEL(l_dot)(lanes acc, __m256i c, __m256i q, const int wide) {
    if (!wide) return KERNEL(l_dot7)(acc, c, q);
    __m256i top = _mm256_set1_epi8((char)128);
    return KERNEL(l_dot7)(KERNEL(l_dot7)(acc, _mm256_andnot_si256(top, c), q), _mm256_and_si256(top, c), q);
}

#elif ISA == ISA_NEON
#define LANES 4
typedef int32x4_t lanes;
SIMD lanes l_zero(void) { return vdupq_n_s32(0); }
SIMD lanes l_add(lanes a, lanes b) { return vaddq_s32(a, b); }
SIMD lanes l_merge(lanes a, lanes b, const int level, const int narrow) { return (void)level, (void)narrow, vpaddq_s32(a, b); }
SIMD lanes KERNEL(l_order)(lanes x, const int units) { return (void)units, x; }
// The dot product is of signed bytes: the top bit of wide codes goes apart.
SIMD lanes KERNEL(l_dot)(lanes acc, uint8x16_t c, int8x16_t q, const int wide) {
    if (!wide) return vdotq_s32(acc, vreinterpretq_s8_u8(c), q);
    int32x4_t top = vdotq_s32(vdupq_n_s32(0), vreinterpretq_s8_u8(vshrq_n_u8(c, 7)), q);
    return vdotq_s32(vaddq_s32(acc, vshlq_n_s32(top, 7)), vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(127))), q);
}
#endif

// What a block of sixteen units is made of.
#define block KERNEL(block)
typedef struct {
    const uint8_t *codes, *ahead; // packed, and what is fetched meanwhile
    const int8_t *q[FEW_ROWS];    // in order; for codes of 4 bits, even and odd apart
} block;

// Vectors of sums that sixteen units start from, for LANES of them: UNITS of them are in a vector.
#if LANES == 16
#define UNITS(bits, unit) (((bits) == 4 ? 2 : 1) * 64 / (unit))
#else
#define UNITS(bits, unit) (LANES == 8 && (bits) == 4 ? 64 / (unit) : 1)
#endif

// l_merge's narrow. Activations are up to 127 and codes up to 15 or, of MXFP4, 24. AVX2: leaf's
// sums are of four products. AVX-512: of eight for codes of 4 bits and of four for others, and each
// level adds two of them.
#if LANES == 16
#define NARROW(mode, bits) ((bits) == 8 ? 0 : (bits) == 6 || (mode) == MODE_MXFP4 ? 1 : 2)
#else
#define NARROW(mode, bits) (ISA != ISA_AVX2 || (bits) != 4 ? 1 : (mode) == MODE_MXFP4 ? 2 : 4)
#endif

// Vector i: the products of its codes with those of each row, added up by fours and more.
SIMD void KERNEL(leaf)(const block *b, const int i, const int mr, const int mode, const int bits, const int unit, lanes *out) {
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
    if (bits == 4) { // two chunks at a time
        __builtin_prefetch(b->ahead + 64 * i);
        __m512i x = _mm512_loadu_si512(b->codes + 64 * i), low = _mm512_set1_epi8(15);
        __m512i even = _mm512_and_si512(x, low), odd = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
        if (mode == MODE_MXFP4) even = c_e2m1(even), odd = c_e2m1(odd);
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) {
            const int8_t *q = b->q[m] + 128 * i;
            out[m] = KERNEL(l_dot)(KERNEL(l_dot)(l_zero(), even, _mm512_loadu_si512(q), 0), odd, _mm512_loadu_si512(q + 64), 0);
        }
        return;
    }
    __builtin_prefetch(b->ahead + 8 * bits * i);
    codes64 c = c_load(b->codes + 8 * bits * i, bits);
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) out[m] = KERNEL(l_dot)(l_zero(), c, _mm512_loadu_si512(b->q[m] + 64 * i), bits == 8);
    (void)unit;
#elif ISA == ISA_AVX2
    if (bits == 4) {
        if (i % 2 == 0) __builtin_prefetch(b->ahead + 32 * i);
        __m256i x = _mm256_loadu_si256((const __m256i *)(b->codes + 32 * i)), low = _mm256_set1_epi8(15);
        __asm__("" : "+x"(x)); // or GCC loads it twice
        __m256i even = _mm256_and_si256(x, low), odd = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
        if (mode == MODE_MXFP4) {
            codes64 values = c_e2m1((codes64){even, odd});
            even = values.a, odd = values.b;
        }
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) {
            const __m256i *q = (const __m256i *)(b->q[m] + 64 * i);
            out[m] = _mm256_add_epi16(_mm256_maddubs_epi16(even, _mm256_loadu_si256(q)), _mm256_maddubs_epi16(odd, _mm256_loadu_si256(q + 1)));
        }
        return;
    }
    const int chunk = i * unit / 64;
    __builtin_prefetch(b->ahead + 8 * bits * chunk);
    codes64 c = c_load(b->codes + 8 * bits * chunk, bits);
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        const __m256i *q = (const __m256i *)(b->q[m] + 64 * chunk);
        if (unit == 32)
            out[m] = KERNEL(l_dot)(l_zero(), i % 2 ? c.b : c.a, _mm256_loadu_si256(q + i % 2), bits == 8);
        else
            out[m] = KERNEL(l_dot)(KERNEL(l_dot)(l_zero(), c.a, _mm256_loadu_si256(q), bits == 8), c.b, _mm256_loadu_si256(q + 1), bits == 8);
    }
#else
    const int chunk = i * unit / 64, half = unit == 32 ? i % 2 : 0;
    __builtin_prefetch(b->ahead + 8 * bits * chunk);
    codes64 c;
    if (bits == 4) {
        for (int j = 0; j < 2; j++) {
            uint8x16_t x = vld1q_u8(b->codes + 32 * chunk + 16 * j);
            c.v[j] = vandq_u8(x, vdupq_n_u8(15));
            c.v[2 + j] = vshrq_n_u8(x, 4);
        }
        if (mode == MODE_MXFP4) c = c_e2m1(c);
    } else {
        c = c_load(b->codes + 8 * bits * chunk, bits);
    }
    // Of a unit of 32: vectors 0 and 2 or 1 and 3 where even and odd elements are apart, otherwise
    // the first or the last two.
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        lanes sum = l_zero();
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            if (unit == 64 || (bits == 4 ? j % 2 : j / 2) == half) sum = KERNEL(l_dot)(sum, c.v[j], vld1q_s8(b->q[m] + 64 * chunk + 16 * j), bits == 8);
        out[m] = sum;
    }
#endif
}

// MERGE makes a function of 2^level vectors from the one of half as many.
#define MERGE(name, half, level) \
    SIMD void KERNEL(name)(const block *b, const int i, const int mr, const int mode, const int bits, const int unit, lanes *out) { \
        lanes second[FEW_ROWS]; \
        KERNEL(half)(b, 2 * i, mr, mode, bits, unit, out); \
        KERNEL(half)(b, 2 * i + 1, mr, mode, bits, unit, second); \
        _Pragma("GCC unroll 4") for (int m = 0; m < mr; m++) out[m] = l_merge(out[m], second[m], level, NARROW(mode, bits)); \
    }
MERGE(leaf2, leaf, 1)
MERGE(leaf4, leaf2, 2)
MERGE(leaf8, leaf4, 3)
MERGE(leaf16, leaf8, 4)
#undef MERGE

// The sums of LANES units from number i*LANES of the block on, in order.
SIMD void dots16(const block *b, const int i, const int mr, const int mode, const int bits, const int unit, lanes *out) {
    switch (LANES / UNITS(bits, unit)) {
    case 4: KERNEL(leaf4)(b, i, mr, mode, bits, unit, out); break;
    case 8: KERNEL(leaf8)(b, i, mr, mode, bits, unit, out); break;
    case 16: KERNEL(leaf16)(b, i, mr, mode, bits, unit, out); break;
    }
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) out[m] = KERNEL(l_order)(out[m], UNITS(bits, unit));
}

#define as_floats KERNEL(as_floats)
SIMD f32x16 as_floats(const lanes sums[16 / LANES]) {
#if LANES == 16
    return _mm512_cvtepi32_ps(sums[0]);
#elif LANES == 8
    return (f32x16){_mm256_cvtepi32_ps(sums[0]), _mm256_cvtepi32_ps(sums[1])};
#else
    return (f32x16){{vcvtq_f32_s32(sums[0]), vcvtq_f32_s32(sums[1]), vcvtq_f32_s32(sums[2]), vcvtq_f32_s32(sums[3])}};
#endif
}

// The scales or biases of units [first, first+16) of a row; zero behind its last.
#define unit_params KERNEL(unit_params)
SIMD f32x16 unit_params(const void *row, int dtype, int group, int64_t k, int64_t first) {
    if (group != 128) {
        // a division by `group` would take as long as four units
        const int64_t n = group == 32 ? k / 32 : k / 64;
        const uint16_t *p = (const uint16_t *)row + first;
        if (n - first < 16 || dtype == DTYPE_F32) return v_load_param(row, dtype, first, n);
        return dtype == DTYPE_BF16 ? v_load_bf16(p) : v_load_f16(p);
    }
    float half[16], twice[16];
    v_store(half, v_load_param(row, dtype, first / 2, k / 128));
    for (int i = 0; i < 16; i++) twice[i] = half[i / 2];
    return v_load(twice);
}

// Rows of a weight are read as so many streams: Intel's processors fetch each of them ahead by
// themselves, within a page of it, and have more fetches under way with two than with one; with
// four they are no faster, and for four rows of activations some 7 % slower. AMD's (Zen 3) are best
// with one. Each asks FEW_AHEAD bytes ahead besides.
#undef STREAMS
#undef FEW_AHEAD
#if ISA == ISA_AVX2
#define STREAMS 1
#else
#define STREAMS 2
#endif
#define FEW_AHEAD 2048

// Where a row's streams are, and how far ahead they ask: in bytes.
#define row_at KERNEL(row_at)
typedef struct {
    const uint8_t *codes, *scales, *biases;
    ptrdiff_t codes_ahead, scales_ahead;
} row_at;

// Row i, where codes and scales of `rows` more rows than FEW_AHEAD are asked for.
SIMD row_at KERNEL(few_row)(const matmul_weight *w, int64_t i, int64_t rows, ptrdiff_t scales_ahead, const int mode) {
    return (row_at){w->data + i * w->data_stride, w->scales + i * w->scales_stride, mode == MODE_AFFINE ? w->biases + i * w->biases_stride : NULL,
                    FEW_AHEAD + rows * w->data_stride, scales_ahead + rows * w->scales_stride};
}

// acc += sixteen units of a row from unit u on, times mr rows.
#define few_block KERNEL(few_block)
SIMD void few_block(const matmul_weight *w, const row_at *row, int64_t u, const int8_t *const *q, const float *const *runs, f32x16 *acc, const int mr,
                    const int mode, const int bits, const int unit) {
    const int64_t units = w->k / unit, c = ((w->k + 63) / 64 + 15) & ~(int64_t)15, at = u / 8 * unit * bits;
    block b;
    b.codes = row->codes + at;
    b.ahead = b.codes + row->codes_ahead;
    uint8_t last[2 * 64 * 8];
    if (units - u < 16) {
        memset(last, 0, sizeof last);
        memcpy(last, row->codes + at, (size_t)(w->k / 8 * bits - at));
        b.codes = last;
    }
    for (int m = 0; m < mr; m++) b.q[m] = q[m] + u * unit;
    lanes sums[16 / LANES][FEW_ROWS];
#pragma GCC unroll 4
    for (int j = 0; j < 16 / LANES; j++) dots16(&b, j, mr, mode, bits, unit, sums[j]);
    f32x16 scale, bias = v_zero();
    __builtin_prefetch(row->scales + 2 * u + row->scales_ahead);
    if (mode == MODE_MXFP4) {
        scale = v_load_e8m0(row->scales, u, units);
    } else {
        __builtin_prefetch(row->biases + 2 * u + row->scales_ahead);
        scale = unit_params(row->scales, w->dtype, w->group, w->k, u);
        bias = unit_params(row->biases, w->dtype, w->group, w->k, u);
    }
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        lanes mine[16 / LANES];
#pragma GCC unroll 4
        for (int j = 0; j < 16 / LANES; j++) mine[j] = sums[j][m];
        const float *x = runs[m] + u;
        f32x16 dots = as_floats(mine);
        if (mode == MODE_MXFP4) dots = v_fma(v_set1(-E2M1_OFFSET), v_load(x + 6 * c), dots);
        acc[m] = v_fma(dots, v_mul(scale, v_load(unit == 32 ? x + c : x)), acc[m]);
        if (mode == MODE_AFFINE) acc[m] = v_fma(bias, v_load(unit == 32 ? x + 3 * c : x + 5 * c), acc[m]);
    }
}

// Rows i, i + apart, ... of the weight, `streams` of them, times mr rows.
#define few_streams KERNEL(few_streams)
SIMD void few_streams(const matmul_weight *w, int64_t i, int64_t apart, int64_t ahead_rows, ptrdiff_t scales_ahead, const int8_t *const *q, const float *const *runs,
                      float *const *out, const int streams, const int mr, const int mode, const int bits, const int unit) {
    f32x16 acc[STREAMS][FEW_ROWS];
    row_at rows[STREAMS];
#pragma GCC unroll 1
    for (int s = 0; s < streams; s++) {
        rows[s] = KERNEL(few_row)(w, i + s * apart, ahead_rows, scales_ahead, mode);
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) acc[s][m] = v_zero();
    }
    for (int64_t u = 0; u < w->k / unit; u += 16) {
#pragma GCC unroll 1
        for (int s = 0; s < streams; s++) few_block(w, rows + s, u, q, runs, acc[s], mr, mode, bits, unit);
    }
#pragma GCC unroll 1
    for (int s = 0; s < streams; s++)
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) out[m][i + s * apart] = v_sum(acc[s][m]);
}

// Rows [0, n) of the weight times mr rows. The same thread goes on with rows behind n, as a rule
// (kernels/cpu/pool.go): at its end, a stream asks for where it will begin there.
SIMD void few_tile(const matmul_weight *w, int64_t n, const int8_t *const *q, const float *const *runs, float *const *out, const int mr,
                   const int mode, const int bits, const int unit) {
    const int64_t length = n / STREAMS, last = length - FEW_AHEAD / (w->k / 8 * bits);
    const ptrdiff_t scales_ahead = FEW_AHEAD * w->scales_stride / w->data_stride;
    const int64_t rest = n - length * STREAMS; // of rows, behind the streams
    for (int64_t i = 0; i < length + rest; i++) {
        const int streamed = i < length;
        few_streams(w, streamed ? i : length * (STREAMS - 1) + i, length, i < last ? 0 : n - length, scales_ahead, q, runs, out, streamed ? STREAMS : 1, mr, mode, bits, unit);
    }
}

typedef void KERNEL(few_function)(const matmul_weight *w, int64_t n, const int8_t *const *q, const float *const *runs, float *const *out);

#define FUNCTION(name, mr, mode, bits, unit) \
    static void KERNEL(name)(const matmul_weight *w, int64_t n, const int8_t *const *q, const float *const *runs, float *const *out) { \
        few_tile(w, n, q, runs, out, mr, mode, bits, unit); \
    }
#define TILE(mr, bits, unit) FUNCTION(few_##mr##_##bits##_##unit, mr, MODE_AFFINE, bits, unit)
#define TILES(mr) \
    TILE(mr, 2, 64) TILE(mr, 3, 64) TILE(mr, 4, 64) TILE(mr, 5, 64) TILE(mr, 6, 64) TILE(mr, 8, 64) \
    TILE(mr, 2, 32) TILE(mr, 3, 32) TILE(mr, 4, 32) TILE(mr, 5, 32) TILE(mr, 6, 32) TILE(mr, 8, 32) \
    FUNCTION(few_##mr##_mxfp4, mr, MODE_MXFP4, 4, 32)
TILES(1)
TILES(2)
TILES(4)
#define EACH(name) {KERNEL(few_1_##name), KERNEL(few_2_##name), KERNEL(few_4_##name)}

// Rows [from, to) of the weight with every row of the input, FEW_ROWS at a time.
static void KERNEL(few_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const matmul_rows *r) {
    static KERNEL(few_function) *const functions[2][9][3] = {
        {[2] = EACH(2_64), [3] = EACH(3_64), [4] = EACH(4_64), [5] = EACH(5_64), [6] = EACH(6_64), [8] = EACH(8_64)},
        {[2] = EACH(2_32), [3] = EACH(3_32), [4] = EACH(4_32), [5] = EACH(5_32), [6] = EACH(6_32), [8] = EACH(8_32)}};
    static KERNEL(few_function) *const mxfp4[3] = EACH(mxfp4);
    KERNEL(few_function) *const *tiles = w->mode == MODE_MXFP4 ? mxfp4 : functions[w->group == 32][w->bits];
    const matmul_weight part = matmul_weight_from(w, from);
    const int64_t c = ((w->k + 63) / 64 + 15) & ~(int64_t)15;
    for (int64_t m = 0; m < r->count; m += FEW_ROWS) {
        const int rows = r->count - m < FEW_ROWS ? (int)(r->count - m) : FEW_ROWS;
        const int8_t *codes[FEW_ROWS];
        const float *run[FEW_ROWS];
        float *out[FEW_ROWS];
        for (int i = 0; i < FEW_ROWS; i++) { // three rows run as four, the last one twice
            const int64_t row = matmul_out_row(r, m + (i < rows ? i : rows - 1)), x = row / r->per_input;
            codes[i] = q + (2 * x + (w->bits == 4)) * c * 64;
            run[i] = runs + x * RUNS * c;
            out[i] = r->out + row * r->out_stride + from;
        }
        tiles[rows == 1 ? 0 : rows == 2 ? 1 : 2](&part, to - from, codes, run, out);
    }
}

#undef FUNCTION
#undef TILE
#undef TILES
#undef EACH
#undef UNITS
#undef NARROW
