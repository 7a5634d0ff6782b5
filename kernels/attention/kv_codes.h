// Unpacks the codes of quantized pages one register at a time. quantized.go describes the layout. A
// register has LANES lanes of 32 bits: the 16 lanes of f32x16 are one, two or four registers. The
// four bytes of a lane are four dimensions of one position (K) or four positions of one dimension
// (V). Instructions that add products of neighbouring bytes therefore sum along the inner index.
// Sums of integers are exact in any order. Included once per instruction set, before kv_format.h.

#define lanes_i KERNEL(lanes_i)
#define lanes_f KERNEL(lanes_f)
#define l_zero KERNEL(l_zero)
#define l_load KERNEL(l_load)
#define l_field KERNEL(l_field)
#define l_join KERNEL(l_join)
#define l_float KERNEL(l_float)
#define l_set1 KERNEL(l_set1)
#define l_loadf KERNEL(l_loadf)
#define l_storef KERNEL(l_storef)
#define l_mul KERNEL(l_mul)
#define l_fma KERNEL(l_fma)
#define l_part KERNEL(l_part)
#define l_spread KERNEL(l_spread)
#define v_plane KERNEL(v_plane)
#define k_plane KERNEL(k_plane)
#define k_quad KERNEL(k_quad)
#define v_quad KERNEL(v_quad)

#undef LANES
#undef MM
#undef MMI
#if ISA == ISA_NEON

#define LANES 4
typedef uint32x4_t lanes_i;
typedef float32x4_t lanes_f;
SIMD lanes_i l_zero(void) { return vdupq_n_u32(0); }
SIMD lanes_i l_load(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
// Bits [shift, shift+width) of each byte.
SIMD lanes_i l_field(lanes_i x, const int shift, const int width) {
    return vreinterpretq_u32_u8(vandq_u8(vreinterpretq_u8_u32(vshlq_u32(x, vdupq_n_s32(-shift))),
        vdupq_n_u8((uint8_t)((1 << width) - 1))));
}
// Joins each byte of high, shifted left by bits, with the same byte of low.
SIMD lanes_i l_join(lanes_i low, lanes_i high, const int bits) {
    return vorrq_u32(low, vshlq_u32(high, vdupq_n_s32(bits)));
}
SIMD lanes_f l_float(lanes_i x) { return vcvtq_f32_s32(vreinterpretq_s32_u32(x)); }
SIMD lanes_f l_set1(float x) { return vdupq_n_f32(x); }
SIMD lanes_f l_loadf(const float *p) { return vld1q_f32(p); }
SIMD void l_storef(float *p, lanes_f x) { vst1q_f32(p, x); }
SIMD lanes_f l_mul(lanes_f x, lanes_f y) { return vmulq_f32(x, y); }
SIMD lanes_f l_fma(lanes_f x, lanes_f y, lanes_f z) { return vfmaq_f32(z, x, y); } // x*y + z
// Lanes [LANES*h, LANES*(h+1)) of sixteen.
SIMD lanes_f l_part(f32x16 x, const int h) { return x.v[h]; }
// Byte j of each lane.
#define l_byte KERNEL(l_byte)
SIMD lanes_i l_byte(lanes_i x, const int j) {
    return vandq_u32(vshlq_u32(x, vdupq_n_s32(-8 * j)), vdupq_n_u32(255));
}

// Returns the bits that a plane of V holds of dimensions 16v + LANES*h + [0, LANES) of a bundle.
SIMD lanes_i v_plane(const int width, const uint8_t *p, const int v, const int h) {
    switch (width) {
    case 8: return l_load(p + 64 * v + 16 * h);
    case 4: return l_field(l_load(p + 16 * h), 4 * v, 4);
    case 2: return l_field(l_load(p + 16 * (h % 2)), 2 * (2 * v + h / 2), 2);
    default: return l_field(l_load(p), 4 * v + h, 1);
    }
}

#else

#if ISA == ISA_AVX2
#define LANES 8
#define MM(op) _mm256_##op
#define MMI(op) _mm256_##op##_si256
typedef __m256i lanes_i;
typedef __m256 lanes_f;
SIMD lanes_i l_spread(const uint8_t *p, const int width, const int v, const int h) {
    if (width == 2)
        return _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)p), 2 * (2 * v + h));
    const __m256i from = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    return _mm256_srlv_epi32(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)),
        _mm256_add_epi32(from, _mm256_set1_epi32(4 * v + 2 * h)));
}
SIMD lanes_f l_part(f32x16 x, const int h) { return h ? x.b : x.a; }
#else
#define LANES 16
#define MM(op) _mm512_##op
#define MMI(op) _mm512_##op##_si512
typedef __m512i lanes_i;
typedef __m512 lanes_f;
SIMD lanes_i l_spread(const uint8_t *p, const int width, const int v, const int h) {
    (void)h;
    if (width == 2) {
        const __m512i from = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
        return _mm512_srlv_epi32(_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p)),
            _mm512_add_epi32(from, _mm512_set1_epi32(4 * v)));
    }
    const __m512i from = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_srlv_epi32(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p)),
        _mm512_add_epi32(from, _mm512_set1_epi32(4 * v)));
}
SIMD lanes_f l_part(f32x16 x, const int h) { return (void)h, x; }
#endif
SIMD lanes_i l_zero(void) { return MM(set1_epi32)(0); }
SIMD lanes_i l_load(const uint8_t *p) { return MMI(loadu)((const lanes_i *)p); }
SIMD lanes_i l_field(lanes_i x, const int shift, const int width) {
    if (shift) x = MM(srli_epi32)(x, (unsigned)shift);
    return width < 8 ? MMI(and)(x, MM(set1_epi8)((char)((1 << width) - 1))) : x;
}
SIMD lanes_i l_join(lanes_i low, lanes_i high, const int bits) {
    return MMI(or)(low, MM(slli_epi32)(high, (unsigned)bits));
}
SIMD lanes_f l_float(lanes_i x) { return MM(cvtepi32_ps)(x); }
SIMD lanes_f l_set1(float x) { return MM(set1_ps)(x); }
SIMD lanes_f l_loadf(const float *p) { return MM(loadu_ps)(p); }
SIMD void l_storef(float *p, lanes_f x) { MM(storeu_ps)(p, x); }
SIMD lanes_f l_mul(lanes_f x, lanes_f y) { return MM(mul_ps)(x, y); }
SIMD lanes_f l_fma(lanes_f x, lanes_f y, lanes_f z) { return MM(fmadd_ps)(x, y, z); }
#define l_byte KERNEL(l_byte)
SIMD lanes_i l_byte(lanes_i x, const int j) {
    return MMI(and)(MM(srli_epi32)(x, (unsigned)(8 * j)), MM(set1_epi32)(255));
}
SIMD lanes_i v_plane(const int width, const uint8_t *p, const int v, const int h) {
    switch (width) {
    case 8: return l_load(p + 64 * v + 4 * LANES * h);
    case 4: return l_field(l_load(p + 4 * LANES * h), 4 * v, 4);
    default: return l_field(l_spread(p, width, v, h), 0, width);
    }
}

#endif

// Returns the bits that a plane of K holds of dimensions 4q to 4q+3 of a bundle, for positions
// LANES*h + [0, LANES).
SIMD lanes_i k_plane(const int width, const uint8_t *p, const int q, const int h) {
    return l_field(l_load(p + q * width / 8 * 64 + 4 * LANES * h), q * width % 8, width);
}

// Returns the codes of dimensions 4q to 4q+3 of the bundle of K at p. bits, q and h must be
// constants after inlining.
SIMD lanes_i k_quad(const int bits, const uint8_t *p, const int q, const int h) {
    switch (bits) {
    case 3: return l_join(k_plane(2, p, q, h), k_plane(1, p + 64 * 2, q, h), 2);
    case 5: return l_join(k_plane(4, p, q, h), k_plane(1, p + 64 * 4, q, h), 4);
    case 6: return l_join(k_plane(4, p, q, h), k_plane(2, p + 64 * 4, q, h), 4);
    }
    return k_plane(bits, p, q, h);
}

// Returns the codes of dimensions 16v + LANES*h + [0, LANES) of the bundle of V at p, for its four
// positions.
SIMD lanes_i v_quad(const int bits, const uint8_t *p, const int v, const int h) {
    switch (bits) {
    case 3: return l_join(v_plane(2, p, v, h), v_plane(1, p + 16 * 2, v, h), 2);
    case 5: return l_join(v_plane(4, p, v, h), v_plane(1, p + 16 * 4, v, h), 4);
    case 6: return l_join(v_plane(4, p, v, h), v_plane(2, p + 16 * 4, v, h), 4);
    }
    return v_plane(bits, p, v, h);
}

// Calls call(bits) with bits as a constant.
#undef EACH_BITS
#define EACH_BITS(bits, call) \
    switch (bits) { \
    case 2: call(2); break; \
    case 3: call(3); break; \
    case 4: call(4); break; \
    case 5: call(5); break; \
    case 6: call(6); break; \
    default: call(8); \
    }
