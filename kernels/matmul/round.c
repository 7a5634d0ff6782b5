// Rounds rows of activations to 8 bits: each 64 elements share a scale, amax/127. input.go describes the layout of the result.
// Rounding is to nearest, ties to even; a chunk whose scale is no normal number is zero. An infinite or undefined element makes
// the scale undefined, and with it every product.
#ifdef ISA

// Rounds 16 elements to q and adds them up. split_int8: 64 bytes at q once more with even and odd ones apart, in split, which is that of
// the first of a chunk's SPLIT_CHUNKS neighbours: all even ones, then all odd ones.
#undef SPLIT_CHUNKS
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
SIMD int32_t KERNEL(store_int8)(int8_t *q, f32x16 v) {
    __m512i x = _mm512_cvtps_epi32(v);
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(x));
    return _mm512_reduce_add_epi32(x);
}
SIMD f32x16 KERNEL(v_abs)(f32x16 v) { return _mm512_abs_ps(v); }
#define SPLIT_CHUNKS 2
SIMD void KERNEL(split_int8)(int8_t *split, const int8_t *q) {
    __m512i x = _mm512_loadu_si512(q);
    _mm256_storeu_si256((__m256i *)split, _mm512_cvtepi16_epi8(x));
    _mm256_storeu_si256((__m256i *)(split + 64), _mm512_cvtepi16_epi8(_mm512_srli_epi16(x, 8)));
}
#elif ISA == ISA_AVX2
SIMD int32_t KERNEL(store_int8)(int8_t *q, f32x16 v) {
    __m256i a = _mm256_cvtps_epi32(v.a), b = _mm256_cvtps_epi32(v.b);
    __m256i x = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm_storeu_si128((__m128i *)q, _mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
    __m256i s = _mm256_add_epi32(a, b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}
SIMD f32x16 KERNEL(v_abs)(f32x16 v) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (f32x16){_mm256_andnot_ps(sign, v.a), _mm256_andnot_ps(sign, v.b)};
}
#define SPLIT_CHUNKS 1
SIMD void KERNEL(split_int8)(int8_t *split, const int8_t *q) {
    __m256i a = _mm256_loadu_si256((const __m256i *)q), b = _mm256_loadu_si256((const __m256i *)(q + 32)), low = _mm256_set1_epi16(255);
    __m256i even = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    __m256i odd = _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
    _mm256_storeu_si256((__m256i *)split, _mm256_permute4x64_epi64(even, 0xd8));
    _mm256_storeu_si256((__m256i *)(split + 32), _mm256_permute4x64_epi64(odd, 0xd8));
}
#elif ISA == ISA_NEON
SIMD int32_t KERNEL(store_int8)(int8_t *q, f32x16 v) {
    int32x4_t a = vcvtnq_s32_f32(v.v[0]), b = vcvtnq_s32_f32(v.v[1]), c = vcvtnq_s32_f32(v.v[2]), d = vcvtnq_s32_f32(v.v[3]);
    int16x8_t lo = vcombine_s16(vmovn_s32(a), vmovn_s32(b)), hi = vcombine_s16(vmovn_s32(c), vmovn_s32(d));
    vst1q_s8(q, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
    return vaddvq_s32(vaddq_s32(vaddq_s32(a, b), vaddq_s32(c, d)));
}
SIMD f32x16 KERNEL(v_abs)(f32x16 v) { return (f32x16){{vabsq_f32(v.v[0]), vabsq_f32(v.v[1]), vabsq_f32(v.v[2]), vabsq_f32(v.v[3])}}; }
#define SPLIT_CHUNKS 1
SIMD void KERNEL(split_int8)(int8_t *split, const int8_t *q) {
    for (int i = 0; i < 2; i++) {
        int8x16x2_t x = vld2q_s8(q + 32 * i);
        vst1q_s8(split + 16 * i, x.val[0]);
        vst1q_s8(split + 32 + 16 * i, x.val[1]);
    }
}
#endif

static void KERNEL(round_rows)(const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k, int8_t *q, float *runs) {
    int64_t chunks = (k + 63) / 64, c = (chunks + 15) & ~(int64_t)15;
    for (int64_t r = 0; r < rows; r++, x += x_stride, q += 2 * 64 * c, runs += RUNS * c) {
        float *scale = runs, *scale32 = runs + c, *sums32 = runs + 3 * c, *sums64 = runs + 5 * c, *codes32 = runs + 6 * c;
        int8_t *split = q + 64 * c;
        memset(q + 64 * chunks, 0, (size_t)(64 * (c - chunks)));
        memset(split + 64 * chunks, 0, (size_t)(64 * (c - chunks)));
        for (int64_t i = 0; i < chunks; i++) {
            f32x16 v[4], amax = v_zero(), nan = v_zero();
            for (int j = 0; j < 4; j++) {
                int64_t at = 64 * i + 16 * j;
                v[j] = at + 16 <= k ? v_load(x + at) : v_load_n(x + at, at < k ? (int)(k - at) : 0);
                amax = v_max(amax, KERNEL(v_abs)(v[j]));
                nan = v_fma(v[j], v_zero(), nan);
            }
            float s = v_hmax(amax) / 127.0f + v_sum(nan);
            if (!(s >= 0x1p-126f)) v[0] = v[1] = v[2] = v[3] = v_zero();
            f32x16 d = v_set1(s >= 0x1p-126f ? s : 1.0f);
            int32_t sum[4];
            for (int j = 0; j < 4; j++) sum[j] = KERNEL(store_int8)(q + 64 * i + 16 * j, v_div(v[j], d));
            KERNEL(split_int8)(split + 64 * (i - i % SPLIT_CHUNKS) + 32 * (i % SPLIT_CHUNKS), q + 64 * i);
            scale[i] = scale32[2 * i] = scale32[2 * i + 1] = s;
            codes32[2 * i] = (float)(sum[0] + sum[1]);
            codes32[2 * i + 1] = (float)(sum[2] + sum[3]);
            sums32[2 * i] = s * codes32[2 * i];
            sums32[2 * i + 1] = s * codes32[2 * i + 1];
            sums64[i] = s * (float)(sum[0] + sum[1] + sum[2] + sum[3]);
        }
        for (int64_t i = chunks; i < c; i++)
            scale[i] = scale32[2 * i] = scale32[2 * i + 1] = sums32[2 * i] = sums32[2 * i + 1] = sums64[i] = codes32[2 * i] = codes32[2 * i + 1] = 0;
    }
}

#else

#include "matmul.h"
#define KERNEL_SOURCE "round.c"
#include "foreach_isa.h"

void headroom_matmul_round(int isa, const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k, int8_t *q, float *runs) {
    DISPATCH(isa, round_rows, (x, x_stride, rows, k, q, runs));
}

#endif
