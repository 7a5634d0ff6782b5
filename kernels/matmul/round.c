// Rounds rows of activations to 8 bits: each 64 elements share a scale, amax/127. input.go
// describes the layout of the result. Rounding is to nearest, ties to even; a chunk whose scale is
// no normal number is zero. An infinite or undefined element makes the scale undefined, and with it
// every product.
//
// Sixteen chunks go together: reductions are of sixteen vectors at once (trees.h), scales are a
// vector, and elements are divided by them with v_quotient (simd.h), which has the bits of a
// division.
#ifdef ISA
#include "trees.h"

#define BATCH 16        // chunks
#define LEAST 0x1p-126f // of a scale

// store_codes stores 64 codes that are in the low bits of v (V_ROUNDER), in order at q, and in
// split, which is that of the first of a chunk's SPLIT_CHUNKS neighbours, with even and odd ones
// apart: all even ones, then all odd ones.
#undef SPLIT_CHUNKS
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
SIMD f32x16 KERNEL(v_abs)(f32x16 v) { return _mm512_abs_ps(v); }
#define SPLIT_CHUNKS 2
SIMD void KERNEL(store_codes)(int8_t *q, int8_t *split, const f32x16 *v) {
    __m512i x[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) x[j] = _mm512_sub_epi32(_mm512_castps_si512(v[j]), _mm512_castps_si512(_mm512_set1_ps(V_ROUNDER)));
    // quarter i: fours number i of each
    const __m512i all = _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
    const __m512i codes = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), all);
    _mm512_storeu_si512(q, codes);
    _mm256_storeu_si256((__m256i *)split, _mm512_cvtepi16_epi8(codes));
    _mm256_storeu_si256((__m256i *)(split + 64), _mm512_cvtepi16_epi8(_mm512_srli_epi16(codes, 8)));
}
#elif ISA == ISA_AVX2
SIMD f32x16 KERNEL(v_abs)(f32x16 v) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (f32x16){_mm256_andnot_ps(sign, v.a), _mm256_andnot_ps(sign, v.b)};
}
#define SPLIT_CHUNKS 1
SIMD void KERNEL(store_codes)(int8_t *q, int8_t *split, const f32x16 *v) {
    const __m256i zero = _mm256_castps_si256(_mm256_set1_ps(V_ROUNDER)), low = _mm256_set1_epi16(255);
    __m256i words[4], codes[2];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) words[j] = _mm256_packs_epi32(_mm256_sub_epi32(_mm256_castps_si256(v[j].a), zero), _mm256_sub_epi32(_mm256_castps_si256(v[j].b), zero));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        codes[i] = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words[2 * i], words[2 * i + 1]), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(q + 32 * i), codes[i]);
    }
    const __m256i even = _mm256_packus_epi16(_mm256_and_si256(codes[0], low), _mm256_and_si256(codes[1], low));
    const __m256i odd = _mm256_packus_epi16(_mm256_srli_epi16(codes[0], 8), _mm256_srli_epi16(codes[1], 8));
    _mm256_storeu_si256((__m256i *)split, _mm256_permute4x64_epi64(even, 0xd8));
    _mm256_storeu_si256((__m256i *)(split + 32), _mm256_permute4x64_epi64(odd, 0xd8));
}
#elif ISA == ISA_NEON
SIMD f32x16 KERNEL(v_abs)(f32x16 v) { return (f32x16){{vabsq_f32(v.v[0]), vabsq_f32(v.v[1]), vabsq_f32(v.v[2]), vabsq_f32(v.v[3])}}; }
#define SPLIT_CHUNKS 1
SIMD void KERNEL(store_codes)(int8_t *q, int8_t *split, const f32x16 *v) {
    int8x16_t codes[4];
    for (int j = 0; j < 4; j++) {
        int16x4_t x[4];
        // of which the low byte counts
        for (int i = 0; i < 4; i++) x[i] = vmovn_s32(vreinterpretq_s32_f32(v[j].v[i]));
        codes[j] = vcombine_s8(vmovn_s16(vcombine_s16(x[0], x[1])), vmovn_s16(vcombine_s16(x[2], x[3])));
        vst1q_s8(q + 16 * j, codes[j]);
    }
    for (int i = 0; i < 2; i++) {
        vst1q_s8(split + 16 * i, vuzp1q_s8(codes[2 * i], codes[2 * i + 1]));
        vst1q_s8(split + 32 + 16 * i, vuzp2q_s8(codes[2 * i], codes[2 * i + 1]));
    }
}
#endif

// A chunk of a row that has k elements from x on.
SIMD void KERNEL(load_chunk)(const float *x, int64_t k, f32x16 *v) {
    if (k >= 64) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) v[j] = v_load(x + 16 * j);
        return;
    }
    float last[64] = {0};
    memcpy(last, x, (size_t)k * 4);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) v[j] = v_load(last + 16 * j);
}

// The scales of n chunks of a row that has k elements from x on, 0 for those behind them.
SIMD f32x16 KERNEL(scales_of)(const float *x, int64_t k, int n) {
    f32x16 most[BATCH], odd[BATCH]; // odd: zeros, or undefined
    for (int i = 0; i < n; i++, x += 64, k -= 64) {
        f32x16 v[4];
        KERNEL(load_chunk)(x, k, v);
        most[i] = v_max(v_max(KERNEL(v_abs)(v[0]), KERNEL(v_abs)(v[1])), v_max(KERNEL(v_abs)(v[2]), KERNEL(v_abs)(v[3])));
        odd[i] = v_fma(v[0], v_zero(), v_fma(v[1], v_zero(), v_fma(v[2], v_zero(), v_mul(v[3], v_zero()))));
    }
    for (int i = n; i < BATCH; i++) most[i] = odd[i] = v_zero();
    return v_add(v_div(v_hmaxes16(most), v_set1(127.0f)), v_sums16(odd));
}

// The codes of a chunk with this scale, in the low bits of code (V_ROUNDER).
SIMD void KERNEL(round_chunk)(const f32x16 *v, float scale, float inverse, f32x16 *code) {
    const f32x16 s = v_set1(scale), y = v_set1(inverse), rounder = v_set1(V_ROUNDER);
    if (scale >= V_LEAST_QUOTIENT) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) code[j] = v_add(v_quotient(v[j], s, y), rounder);
        return;
    }
    for (int j = 0; j < 4; j++) code[j] = scale >= LEAST ? v_add(v_div(v[j], s), rounder) : rounder;
}

// n chunks, up to sixteen: codes to q and split, scale and the codes' sums over 32 elements, of
// first halves of chunks and of second ones. Sums are integers, so exact in any order.
SIMD void KERNEL(round_batch)(const float *x, int64_t k, int n, int8_t *q, int8_t *split, float *scale, float *first, float *second) {
    f32x16 sums[2][BATCH];
    float inverse[BATCH];
    const f32x16 s = KERNEL(scales_of)(x, k, n), rounder = v_set1(V_ROUNDER);
    v_store(scale, s);
    v_store(inverse, v_div(v_set1(1.0f), s));
    for (int i = 0; i < n; i++, x += 64, k -= 64) {
        f32x16 v[4], code[4];
        KERNEL(load_chunk)(x, k, v);
        KERNEL(round_chunk)(v, scale[i], inverse[i], code);
        KERNEL(store_codes)(q + 64 * i, split + 64 * (i - i % SPLIT_CHUNKS) + 32 * (i % SPLIT_CHUNKS), code);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) sums[h][i] = v_add(v_sub(code[2 * h], rounder), v_sub(code[2 * h + 1], rounder));
    }
    for (int i = n; i < BATCH; i++) sums[0][i] = sums[1][i] = v_zero();
    v_store(first, v_sums16(sums[0]));
    v_store(second, v_sums16(sums[1]));
}

static void KERNEL(round_rows)(const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k, int8_t *q, float *runs) {
    int64_t chunks = (k + 63) / 64, c = (chunks + 15) & ~(int64_t)15;
    for (int64_t r = 0; r < rows; r++, x += x_stride, q += 2 * 64 * c, runs += RUNS * c) {
        int8_t *split = q + 64 * c;
        memset(q + 64 * chunks, 0, (size_t)(64 * (c - chunks)));
        memset(split + 64 * chunks, 0, (size_t)(64 * (c - chunks)));
        for (int64_t at = 0; at < c; at += BATCH) {
            float *scale = runs + at, *scale32 = runs + c + 2 * at, *sums32 = runs + 3 * c + 2 * at, *sums64 = runs + 5 * c + at, *codes32 = runs + 6 * c + 2 * at;
            float first[BATCH], second[BATCH];
            KERNEL(round_batch)(x + 64 * at, k - 64 * at, chunks - at < BATCH ? (int)(chunks - at) : BATCH, q + 64 * at, split + 64 * at, scale, first, second);
            for (int i = 0; i < BATCH; i++) {
                scale32[2 * i] = scale32[2 * i + 1] = scale[i];
                codes32[2 * i] = first[i], codes32[2 * i + 1] = second[i];
                sums32[2 * i] = scale[i] * first[i], sums32[2 * i + 1] = scale[i] * second[i];
                sums64[i] = scale[i] * (first[i] + second[i]);
            }
        }
    }
}

#undef BATCH
#undef LEAST

#else

#include "matmul.h"
#define KERNEL_SOURCE "round.c"
#include "foreach_isa.h"

void headroom_matmul_round(int isa, const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k, int8_t *q, float *runs) {
    DISPATCH(isa, round_rows, (x, x_stride, rows, k, q, runs));
}

#endif
