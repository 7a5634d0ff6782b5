// f32x16 and the primitives of simd.h for AVX2.

typedef struct {
    __m256 a, b;
} f32x16; // lanes 0-7, 8-15
#define V2(x, y) ((f32x16){(x), (y)})
SIMD f32x16 v_zero(void) { return V2(_mm256_setzero_ps(), _mm256_setzero_ps()); }
SIMD f32x16 v_set1(float x) { return V2(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
SIMD f32x16 v_load(const float *p) { return V2(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
SIMD f32x16 v_load_n(const float *p, int n) {
    float t[16] = {0};
    memcpy(t, p, (size_t)n * 4);
    return v_load(t);
}
SIMD void v_store(float *p, f32x16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
SIMD void v_store_n(float *p, f32x16 v, int n) {
    float t[16];
    v_store(t, v);
    memcpy(p, t, (size_t)n * 4);
}
SIMD f32x16 v_load_bf16(const uint16_t *p) {
    __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
            hi = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return V2(_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
              _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16)));
}
SIMD f32x16 v_load_f16(const uint16_t *p) {
    return V2(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
              _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}
SIMD void v_store_f16(uint16_t *p, f32x16 v) {
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(p + 8),
                     _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SIMD __m128i KERNEL(bf16x8)(__m256 v) {
    __m256i x = _mm256_castps_si256(v);
    __m256i r = _mm256_add_epi32(
        x, _mm256_add_epi32(_mm256_set1_epi32(0x7fff),
                            _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1))));
    r = _mm256_blendv_epi8(r, _mm256_set1_epi32(0x7fc00000),
                           _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
    r = _mm256_srli_epi32(r, 16);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0xd8);
    return _mm256_castsi256_si128(r);
}
SIMD void v_store_bf16(uint16_t *p, f32x16 v) {
    _mm_storeu_si128((__m128i *)p, KERNEL(bf16x8)(v.a));
    _mm_storeu_si128((__m128i *)(p + 8), KERNEL(bf16x8)(v.b));
}
SIMD f32x16 v_add(f32x16 x, f32x16 y) {
    return V2(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}
SIMD f32x16 v_sub(f32x16 x, f32x16 y) {
    return V2(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}
SIMD f32x16 v_mul(f32x16 x, f32x16 y) {
    return V2(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}
SIMD f32x16 v_div(f32x16 x, f32x16 y) {
    return V2(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}
SIMD f32x16 v_fma(f32x16 x, f32x16 y, f32x16 z) {
    return V2(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
SIMD f32x16 v_fnma(f32x16 x, f32x16 y, f32x16 z) {
    return V2(_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}
SIMD f32x16 v_abs(f32x16 x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return V2(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
SIMD f32x16 v_max(f32x16 x, f32x16 y) {
    return V2(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}
SIMD f32x16 v_min(f32x16 x, f32x16 y) {
    return V2(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}
SIMD f32x16 v_round(f32x16 x) {
    return V2(_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
              _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define F(i) \
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.i), \
                                         _mm256_slli_epi32(_mm256_castps_si256(t.i), 23)))
SIMD f32x16 v_scale2(f32x16 x, f32x16 t) { return V2(F(a), F(b)); }
#undef F
SIMD float v_sum(f32x16 x) {
    __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
SIMD float v_hmax(f32x16 x) {
    __m256 s = _mm256_max_ps(x.a, x.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
#undef V2
