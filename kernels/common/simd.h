// f32x16, sixteen floats, and its operations, the same on every instruction set. Included once per
// set by foreach_isa.h, so it has no include guard; each name gets the set's suffix.
//
// Reductions have one order everywhere: lane i is combined with lane i+8, then i+4, i+2, i+1. With
// explicit fused multiply-adds a kernel gives the same bits on AVX2, AVX-512 and NEON.

#define SIMD static inline __attribute__((always_inline, unused))

#define f32x16 KERNEL(f32x16)
#define v_zero KERNEL(v_zero)
#define v_set1 KERNEL(v_set1)
#define v_load KERNEL(v_load)
#define v_load_n KERNEL(v_load_n)
#define v_store KERNEL(v_store)
#define v_store_n KERNEL(v_store_n)
#define v_load_bf16 KERNEL(v_load_bf16)
#define v_load_f16 KERNEL(v_load_f16)
#define v_store_f16 KERNEL(v_store_f16)
#define v_store_bf16 KERNEL(v_store_bf16)
#define v_add KERNEL(v_add)
#define v_sub KERNEL(v_sub)
#define v_mul KERNEL(v_mul)
#define v_div KERNEL(v_div)
#define v_fma KERNEL(v_fma)
#define v_fnma KERNEL(v_fnma)
#define v_abs KERNEL(v_abs)
#define v_max KERNEL(v_max)
#define v_min KERNEL(v_min)
#define v_round KERNEL(v_round)
#define v_scale2 KERNEL(v_scale2)
#define v_sum KERNEL(v_sum)
#define v_hmax KERNEL(v_hmax)
#define v_exp KERNEL(v_exp)
#define v_sigmoid KERNEL(v_sigmoid)
#define v_silu KERNEL(v_silu)
#define v_quotient KERNEL(v_quotient)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI

typedef __m512 f32x16;
SIMD f32x16 v_zero(void) { return _mm512_setzero_ps(); }
SIMD f32x16 v_set1(float x) { return _mm512_set1_ps(x); }
SIMD f32x16 v_load(const float *p) { return _mm512_loadu_ps(p); }
// Loads the first n of 16 lanes, 0 <= n <= 16. The other lanes are zero, and no memory is read for
// them.
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
// Rounds to nearest even; NaN stays NaN.
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
SIMD f32x16 v_fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }   // a*b + c
SIMD f32x16 v_fnma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fnmadd_ps(a, b, c); } // c - a*b
SIMD f32x16 v_abs(f32x16 a) { return _mm512_abs_ps(a); }
SIMD f32x16 v_max(f32x16 a, f32x16 b) { return _mm512_max_ps(a, b); }
SIMD f32x16 v_min(f32x16 a, f32x16 b) { return _mm512_min_ps(a, b); }
SIMD f32x16 v_round(f32x16 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Returns x * 2^n, where the low bits of t hold the integer n (V_ROUNDER). Neither x nor the
// product may be zero, subnormal or infinite.
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

#elif ISA == ISA_AVX2

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

#elif ISA == ISA_NEON

typedef struct {
    float32x4_t v[4];
} f32x16; // lanes 0-3, 4-7, 8-11, 12-15
#define V4(f) ((f32x16){{f(0), f(1), f(2), f(3)}})
SIMD f32x16 v_set1(float x) {
    float32x4_t q = vdupq_n_f32(x);
    return (f32x16){{q, q, q, q}};
}
SIMD f32x16 v_zero(void) { return v_set1(0); }
#define F(i) vld1q_f32(p + 4 * i)
SIMD f32x16 v_load(const float *p) { return V4(F); }
#undef F
SIMD f32x16 v_load_n(const float *p, int n) {
    float t[16] = {0};
    memcpy(t, p, (size_t)n * 4);
    return v_load(t);
}
SIMD void v_store(float *p, f32x16 a) {
    for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.v[i]);
}
SIMD void v_store_n(float *p, f32x16 a, int n) {
    float t[16];
    v_store(t, a);
    memcpy(p, t, (size_t)n * 4);
}
#define F(i) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16))
SIMD f32x16 v_load_bf16(const uint16_t *p) { return V4(F); }
#undef F
#define F(i) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)))
SIMD f32x16 v_load_f16(const uint16_t *p) { return V4(F); }
#undef F
SIMD void v_store_f16(uint16_t *p, f32x16 a) {
    for (int i = 0; i < 4; i++) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
SIMD void v_store_bf16(uint16_t *p, f32x16 a) {
    for (int i = 0; i < 4; i++) {
        uint32x4_t x = vreinterpretq_u32_f32(a.v[i]);
        uint32x4_t r = vaddq_u32(
            x, vaddq_u32(vdupq_n_u32(0x7fff), vandq_u32(vshrq_n_u32(x, 16), vdupq_n_u32(1))));
        r = vbslq_u32(vceqq_f32(a.v[i], a.v[i]), r, vdupq_n_u32(0x7fc00000));
        vst1_u16(p + 4 * i, vshrn_n_u32(r, 16));
    }
}
#define F(i) vaddq_f32(x.v[i], y.v[i])
SIMD f32x16 v_add(f32x16 x, f32x16 y) { return V4(F); }
#undef F
#define F(i) vsubq_f32(x.v[i], y.v[i])
SIMD f32x16 v_sub(f32x16 x, f32x16 y) { return V4(F); }
#undef F
#define F(i) vmulq_f32(x.v[i], y.v[i])
SIMD f32x16 v_mul(f32x16 x, f32x16 y) { return V4(F); }
#undef F
#define F(i) vdivq_f32(x.v[i], y.v[i])
SIMD f32x16 v_div(f32x16 x, f32x16 y) { return V4(F); }
#undef F
#define F(i) vfmaq_f32(z.v[i], x.v[i], y.v[i])
SIMD f32x16 v_fma(f32x16 x, f32x16 y, f32x16 z) { return V4(F); }
#undef F
#define F(i) vfmsq_f32(z.v[i], x.v[i], y.v[i])
SIMD f32x16 v_fnma(f32x16 x, f32x16 y, f32x16 z) { return V4(F); }
#undef F
#define F(i) vabsq_f32(x.v[i])
SIMD f32x16 v_abs(f32x16 x) { return V4(F); }
#undef F
#define F(i) vmaxq_f32(x.v[i], y.v[i])
SIMD f32x16 v_max(f32x16 x, f32x16 y) { return V4(F); }
#undef F
#define F(i) vminq_f32(x.v[i], y.v[i])
SIMD f32x16 v_min(f32x16 x, f32x16 y) { return V4(F); }
#undef F
#define F(i) vrndnq_f32(x.v[i])
SIMD f32x16 v_round(f32x16 x) { return V4(F); }
#undef F
#define F(i) \
    vreinterpretq_f32_s32( \
        vaddq_s32(vreinterpretq_s32_f32(x.v[i]), vshlq_n_s32(vreinterpretq_s32_f32(t.v[i]), 23)))
SIMD f32x16 v_scale2(f32x16 x, f32x16 t) { return V4(F); }
#undef F
SIMD float v_sum(f32x16 x) {
    float32x4_t q = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
SIMD float v_hmax(f32x16 x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.v[0], x.v[2]), vmaxq_f32(x.v[1], x.v[3])));
}
#undef V4

#endif

// A number added to V_ROUNDER is rounded to an integer, which is then in the low bits of the sum.
#define V_ROUNDER 12582912.0f // 1.5 * 2^23

// Returns e^x: x = n ln2 + r, and a polynomial of degree 6 in r (Cephes) is scaled by 2^n. The
// relative error is under 2e-7 over [-87, 88]. Smaller x give e^-87 and larger e^88, so the result
// is always finite and positive.
SIMD f32x16 v_exp(f32x16 x) {
    x = v_min(v_max(x, v_set1(-87.0f)), v_set1(88.0f));
    const f32x16 t = v_add(v_mul(x, v_set1(1.44269504f)), v_set1(V_ROUNDER)),
                 n = v_sub(t, v_set1(V_ROUNDER));
    f32x16 r = v_fnma(n, v_set1(0.693359375f), x);
    r = v_fnma(n, v_set1(-2.12194440e-4f), r);
    f32x16 p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_fma(v_mul(p, r), r, v_add(r, v_set1(1.0f)));
    return v_scale2(p, t);
}
SIMD f32x16 v_sigmoid(f32x16 x) {
    return v_div(v_set1(1.0f), v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), x))));
}
SIMD f32x16 v_silu(f32x16 x) { return v_mul(x, v_sigmoid(x)); }
// Returns x / s in three operations, where y is 1 / s rounded. It is the correctly rounded quotient
// (Markstein 1990, "Computation of elementary functions on the IBM RISC System/6000 processor")
// unless the remainder underflows, so s must be at least V_LEAST_QUOTIENT. Tried with every
// mantissa of s, for x next to each tie of integers up to 255.
#define V_LEAST_QUOTIENT 0x1p-90f
SIMD f32x16 v_quotient(f32x16 x, f32x16 s, f32x16 y) {
    const f32x16 q = v_mul(x, y);
    return v_fma(v_fnma(q, s, x), y, q);
}
