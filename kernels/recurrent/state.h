// The storage types of a recurrent state: rounds vectors to a type, loads and stores them. state.go
// is the same in plain Go, with the same bits. Included once per instruction set, so it has no
// include guard.

// Values of headroom/kernels.DType.
#define STATE_F32 0
#define STATE_BF16 2
#define STATE_I8 5

#define LARGEST_CODE 127.0f
#define LEAST_AMAX 1e-30f // keeps the reciprocal of the scale of a row of zeros finite

#define v_bf16 KERNEL(v_bf16)
#define v_load_i8 KERNEL(v_load_i8)
#define v_store_i8 KERNEL(v_store_i8)
#define state_load KERNEL(state_load)
#define state_store KERNEL(state_store)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
// Rounds to bfloat16, to nearest even, and back.
SIMD f32x16 v_bf16(f32x16 a) {
    __m512i x = _mm512_castps_si512(a),
            odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    x = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)));
}
SIMD f32x16 v_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
// a must hold integers within the range of int8.
SIMD void v_store_i8(int8_t *p, f32x16 a) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}
#elif ISA == ISA_AVX2
SIMD __m256 KERNEL(bf16_half)(__m256 a) {
    __m256i x = _mm256_castps_si256(a),
            odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    x = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000)));
}
SIMD f32x16 v_bf16(f32x16 x) { return (f32x16){KERNEL(bf16_half)(x.a), KERNEL(bf16_half)(x.b)}; }
SIMD f32x16 v_load_i8(const int8_t *p) {
    __m128i x = _mm_loadu_si128((const __m128i *)p);
    return (f32x16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
SIMD void v_store_i8(int8_t *p, f32x16 x) {
    // lanes 0-3, 8-11, 4-7, 12-15
    __m256i pairs = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    pairs = _mm256_permute4x64_epi64(pairs, 0xd8);
    _mm_storeu_si128((__m128i *)p,
        _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}
#else
SIMD f32x16 v_bf16(f32x16 a) {
    for (int i = 0; i < 4; i++) {
        uint32x4_t x = vreinterpretq_u32_f32(a.v[i]),
                   odd = vandq_u32(vshrq_n_u32(x, 16), vdupq_n_u32(1));
        x = vaddq_u32(vaddq_u32(x, vdupq_n_u32(0x7fff)), odd);
        a.v[i] = vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xffff0000)));
    }
    return a;
}
SIMD f32x16 v_load_i8(const int8_t *p) {
    int8x16_t x = vld1q_s8(p);
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_s8(vget_high_s8(x));
    return (f32x16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))),
        vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))),
        vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)))}};
}
SIMD void v_store_i8(int8_t *p, f32x16 a) {
    int16x8_t lo = vcombine_s16(
        vmovn_s32(vcvtnq_s32_f32(a.v[0])), vmovn_s32(vcvtnq_s32_f32(a.v[1])));
    int16x8_t hi = vcombine_s16(
        vmovn_s32(vcvtnq_s32_f32(a.v[2])), vmovn_s32(vcvtnq_s32_f32(a.v[3])));
    vst1q_s8(p, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}
#endif

// Loads elements [i, i+n) of p as floats, n <= 16. All other lanes are zero. For int8 it returns
// the codes. dtype, the type of the state, must be a constant after inlining, here and below.
SIMD f32x16 state_load(const int dtype, const void *p, int64_t i, int n) {
    uint16_t halves[16] = {0};
    int8_t codes[16] = {0};
    switch (dtype) {
    case STATE_BF16:
        if (n == 16) return v_load_bf16((const uint16_t *)p + i);
        memcpy(halves, (const uint16_t *)p + i, (size_t)n * 2);
        return v_load_bf16(halves);
    case STATE_I8:
        if (n == 16) return v_load_i8((const int8_t *)p + i);
        memcpy(codes, (const int8_t *)p + i, (size_t)n);
        return v_load_i8(codes);
    }
    return n == 16 ? v_load((const float *)p + i) : v_load_n((const float *)p + i, n);
}

// Stores elements [i, i+n) of p. a must be rounded to the type already.
SIMD void state_store(const int dtype, void *p, int64_t i, int n, f32x16 a) {
    uint16_t halves[16];
    int8_t codes[16];
    switch (dtype) {
    case STATE_BF16:
        if (n == 16) {
            v_store_bf16((uint16_t *)p + i, a);
            return;
        }
        v_store_bf16(halves, a);
        memcpy((uint16_t *)p + i, halves, (size_t)n * 2);
        return;
    case STATE_I8:
        if (n == 16) {
            v_store_i8((int8_t *)p + i, a);
            return;
        }
        v_store_i8(codes, a);
        memcpy((int8_t *)p + i, codes, (size_t)n);
        return;
    }
    if (n == 16) v_store((float *)p + i, a);
    else v_store_n((float *)p + i, a, n);
}
