// f32x16 and the primitives of simd.h for AVX-512.

typedef __m512 f32x16;
SIMD f32x16 v_zero(void) { return _mm512_setzero_ps(); }
SIMD f32x16 v_set1(float x) { return _mm512_set1_ps(x); }
SIMD f32x16 v_load(const float *p) { return _mm512_loadu_ps(p); }
SIMD f32x16 v_load_n(const float *p, int n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
SIMD void v_store(float *p, f32x16 a) { _mm512_storeu_ps(p, a); }
SIMD void v_store_n(float *p, f32x16 a, int n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a);
}
SIMD f32x16 v_load_bf16(const uint16_t *p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
SIMD f32x16 v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
SIMD void v_store_f16(uint16_t *p, f32x16 a) {
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SIMD void v_store_bf16(uint16_t *p, f32x16 a) {
    __m512i x = _mm512_castps_si512(a);
    __m512i r = _mm512_add_epi32(
        x, _mm512_add_epi32(_mm512_set1_epi32(0x7fff),
                            _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1))));
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q),
                              _mm512_set1_epi32(0x7fc00000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
SIMD f32x16 v_add(f32x16 a, f32x16 b) { return _mm512_add_ps(a, b); }
SIMD f32x16 v_sub(f32x16 a, f32x16 b) { return _mm512_sub_ps(a, b); }
SIMD f32x16 v_mul(f32x16 a, f32x16 b) { return _mm512_mul_ps(a, b); }
SIMD f32x16 v_div(f32x16 a, f32x16 b) { return _mm512_div_ps(a, b); }
SIMD f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
SIMD f32x16 v_fnma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fnmadd_ps(a, b, c); }
SIMD f32x16 v_abs(f32x16 a) { return _mm512_abs_ps(a); }
SIMD f32x16 v_max(f32x16 a, f32x16 b) { return _mm512_max_ps(a, b); }
SIMD f32x16 v_min(f32x16 a, f32x16 b) { return _mm512_min_ps(a, b); }
SIMD f32x16 v_round(f32x16 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
SIMD f32x16 v_scale2(f32x16 x, f32x16 t) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
SIMD float v_sum(f32x16 a) {
    __m256 s = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
SIMD float v_hmax(f32x16 a) { return _mm512_reduce_max_ps(a); }
