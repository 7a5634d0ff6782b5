// The formats of a cache's elements, the only place in C that knows them. kv_read gives tiles of float32, whatever the format,
// so the loops of attention do not change when one is added; a plain format also has a kv_load, and a quantized one k_codes and
// v_codes, from which decode multiplies straight from the pages. Included once per instruction set (so no include guard).
//
// A quantized element is fma(code, scale, bias) wherever it is read, so every path has the same bits.
#include "kv_page.h"

// Numbers of headroom/kernels.DType.
#define KV_F32 0
#define KV_F16 1
#define KV_BF16 2

#define kv_load KERNEL(kv_load)
#define kv_read_as KERNEL(kv_read_as)
#define kv_read KERNEL(kv_read)
#define kv_store KERNEL(kv_store)
#define kv_element_bytes KERNEL(kv_element_bytes)
#define kv_scale KERNEL(kv_scale)
#define kv_bias KERNEL(kv_bias)
#define i32x16 KERNEL(i32x16)
#define i_load_u8 KERNEL(i_load_u8)
#define i_field KERNEL(i_field)
#define i_stream KERNEL(i_stream)
#define i_join KERNEL(i_join)
#define i_float KERNEL(i_float)
#define k_plane KERNEL(k_plane)
#define v_plane KERNEL(v_plane)
#define k_codes KERNEL(k_codes)
#define v_codes KERNEL(v_codes)
#define k_read_bits KERNEL(k_read_bits)
#define v_read_bits KERNEL(v_read_bits)
#define k_read KERNEL(k_read)
#define v_read KERNEL(v_read)

SIMD int64_t kv_element_bytes(int dtype) { return dtype == KV_F32 ? 4 : 2; }

// Elements i to i+15 of p. dtype is a constant where it is inlined.
SIMD f32x16 kv_load(const int dtype, const void *p, int64_t i) {
    switch (dtype) {
    case KV_F16: return v_load_f16((const uint16_t *)p + i);
    case KV_BF16: return v_load_bf16((const uint16_t *)p + i);
    default: return v_load((const float *)p + i);
    }
}

SIMD void kv_read_as(const int dtype, float *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c += 16) v_store(dst + r * dst_stride + c, kv_load(dtype, src, r * src_stride + c));
}

// dst [rows, cols] = src, whose rows lie src_stride elements apart, as float32. cols is a multiple of 16.
SIMD void kv_read(int dtype, float *dst, int64_t dst_stride, const void *src, int64_t src_stride, int64_t rows, int64_t cols) {
    switch (dtype) {
    case KV_F16: kv_read_as(KV_F16, dst, dst_stride, src, src_stride, rows, cols); break;
    case KV_BF16: kv_read_as(KV_BF16, dst, dst_stride, src, src_stride, rows, cols); break;
    default: kv_read_as(KV_F32, dst, dst_stride, src, src_stride, rows, cols);
    }
}

// Sixteen elements, rounded to nearest even; float16 saturates, so that no infinity gets into the cache, and keeps NaN.
SIMD void kv_store(int dtype, void *dst, f32x16 x) {
    switch (dtype) {
    case KV_F16: v_store_f16((uint16_t *)dst, v_min(v_set1(65504.0f), v_max(v_set1(-65504.0f), x))); break;
    case KV_BF16: v_store_bf16((uint16_t *)dst, x); break;
    default: v_store((float *)dst, x);
    }
}

// Sixteen integers: i_load_u8 takes bytes, i_field bits [shift, shift+width) of each lane, i_stream the 16 fields of width bits
// (1 or 2) that start at bit from of a little-endian word, i_join puts high above the `bits` bits of low.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI

typedef __m512i i32x16;
SIMD i32x16 i_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
SIMD i32x16 i_field(i32x16 x, const int shift, const int width) {
    if (shift) x = _mm512_srli_epi32(x, (unsigned)shift);
    return shift + width < 8 ? _mm512_and_si512(x, _mm512_set1_epi32((1 << width) - 1)) : x;
}
SIMD i32x16 i_stream(uint32_t word, const int from, const int width) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i shift = _mm512_add_epi32(_mm512_slli_epi32(lane, (unsigned)(width - 1)), _mm512_set1_epi32(from));
    return _mm512_and_si512(_mm512_srlv_epi32(_mm512_set1_epi32((int)word), shift), _mm512_set1_epi32((1 << width) - 1));
}
SIMD i32x16 i_join(i32x16 low, i32x16 high, const int bits) { return _mm512_or_si512(low, _mm512_slli_epi32(high, (unsigned)bits)); }
SIMD f32x16 i_float(i32x16 x) { return _mm512_cvtepi32_ps(x); }

#elif ISA == ISA_AVX2

typedef struct { __m256i a, b; } i32x16;
SIMD i32x16 i_load_u8(const uint8_t *p) {
    return (i32x16){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)), _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}
SIMD i32x16 i_field(i32x16 x, const int shift, const int width) {
    if (shift) x = (i32x16){_mm256_srli_epi32(x.a, shift), _mm256_srli_epi32(x.b, shift)};
    const __m256i mask = _mm256_set1_epi32((1 << width) - 1);
    return shift + width < 8 ? (i32x16){_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)} : x;
}
SIMD i32x16 i_stream(uint32_t word, const int from, const int width) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), mask = _mm256_set1_epi32((1 << width) - 1), x = _mm256_set1_epi32((int)word);
    const __m256i a = _mm256_add_epi32(_mm256_slli_epi32(lane, width - 1), _mm256_set1_epi32(from));
    const __m256i b = _mm256_add_epi32(a, _mm256_set1_epi32(8 * width));
    return (i32x16){_mm256_and_si256(_mm256_srlv_epi32(x, a), mask), _mm256_and_si256(_mm256_srlv_epi32(x, b), mask)};
}
SIMD i32x16 i_join(i32x16 low, i32x16 high, const int bits) {
    return (i32x16){_mm256_or_si256(low.a, _mm256_slli_epi32(high.a, bits)), _mm256_or_si256(low.b, _mm256_slli_epi32(high.b, bits))};
}
SIMD f32x16 i_float(i32x16 x) { return (f32x16){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

#elif ISA == ISA_NEON

typedef struct { uint32x4_t v[4]; } i32x16;
#define V4(f) ((i32x16){{f(0), f(1), f(2), f(3)}})
SIMD i32x16 i_load_u8(const uint8_t *p) {
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_u8(vget_high_u8(x));
    return (i32x16){{vmovl_u16(vget_low_u16(lo)), vmovl_u16(vget_high_u16(lo)), vmovl_u16(vget_low_u16(hi)), vmovl_u16(vget_high_u16(hi))}};
}
#define F(i) vandq_u32(vshlq_u32(x.v[i], vdupq_n_s32(-shift)), vdupq_n_u32((1u << width) - 1))
SIMD i32x16 i_field(i32x16 x, const int shift, const int width) { return V4(F); }
#undef F
#define F(i) vandq_u32(vshlq_u32(vdupq_n_u32(word), vmlaq_n_s32(vdupq_n_s32(-from - 4 * i * width), lane, -width)), vdupq_n_u32((1u << width) - 1))
SIMD i32x16 i_stream(uint32_t word, const int from, const int width) {
    const int32x4_t lane = {0, 1, 2, 3};
    return V4(F);
}
#undef F
#define F(i) vorrq_u32(low.v[i], vshlq_u32(high.v[i], vdupq_n_s32(bits)))
SIMD i32x16 i_join(i32x16 low, i32x16 high, const int bits) { return V4(F); }
#undef F
#define F(i) vcvtq_f32_u32(x.v[i])
SIMD f32x16 i_float(i32x16 x) { return (f32x16){{F(0), F(1), F(2), F(3)}}; }
#undef F
#undef V4

#endif

// Width bits of dimension j of a bundle of K, for 16 positions.
SIMD i32x16 k_plane(const int width, const uint8_t *p, const int j) { return i_field(i_load_u8(p + j * width / 8 * STRIP), j * width % 8, width); }

// Width bits of dimensions 16v to 16v+15 of a bundle of V.
SIMD i32x16 v_plane(const int width, const uint8_t *p, const int v) {
    uint32_t word;
    switch (width) {
    case 8: return i_load_u8(p + 16 * v);
    case 4: return i_field(i_load_u8(p), 4 * v, 4);
    }
    memcpy(&word, p + (width == 2 ? 4 * v : 0), 4);
    return i_stream(word, width == 1 ? 16 * v : 0, width);
}

// The codes of dimension j (of 8) of the bundle at p, for 16 positions. bits and j are constants where it is inlined.
SIMD i32x16 k_codes(const int bits, const uint8_t *p, const int j) {
    switch (bits) {
    case 3: return i_join(k_plane(2, p, j), k_plane(1, p + 2 * 16, j), 2);
    case 5: return i_join(k_plane(4, p, j), k_plane(1, p + 4 * 16, j), 4);
    case 6: return i_join(k_plane(4, p, j), k_plane(2, p + 4 * 16, j), 4);
    }
    return k_plane(bits, p, j);
}

// The codes of half v (of 2) of the bundle at p.
SIMD i32x16 v_codes(const int bits, const uint8_t *p, const int v) {
    switch (bits) {
    case 3: return i_join(v_plane(2, p, v), v_plane(1, p + 2 * 4, v), 2);
    case 5: return i_join(v_plane(4, p, v), v_plane(1, p + 4 * 4, v), 4);
    case 6: return i_join(v_plane(4, p, v), v_plane(2, p + 4 * 4, v), 4);
    }
    return v_plane(bits, p, v);
}

// The scales and the biases of group g, for the 16 positions of a strip.
SIMD f32x16 kv_scale(const uint8_t *strip, int64_t g) { return v_load_f16((const uint16_t *)strip + g * STRIP); }
SIMD f32x16 kv_bias(const uint8_t *strip, int64_t g, int64_t groups, int64_t zero, f32x16 scale) {
    return zero ? v_mul(scale, v_set1((float)-zero)) : v_load_f16((const uint16_t *)strip + (groups + g) * STRIP);
}

SIMD void k_read_bits(const int bits, const struct kv_format *f, float *dst, int64_t dst_stride, const uint8_t *strip, int64_t d) {
    const uint8_t *p = strip + kv_param_bytes(f, d);
    const int64_t groups = kv_groups(f, d);
    for (int64_t g = 0; g < groups; g++) {
        f32x16 s = kv_scale(strip, g), b = kv_bias(strip, g, groups, f->zero, s);
        for (int64_t i = 0; i < f->group; i += 8, p += 16 * bits, dst += 8 * dst_stride)
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) v_store(dst + j * dst_stride, v_fma(i_float(k_codes(bits, p, j)), s, b));
    }
}

SIMD void v_read_bits(const int bits, const struct kv_format *f, float *dst, int64_t dst_stride, const uint8_t *strip, int64_t d, int64_t from, int64_t to) {
    const int64_t groups = kv_groups(f, d);
    for (int64_t g = 0; g < groups; g++) {
        float scales[16], biases[16];
        f32x16 s = kv_scale(strip, g);
        v_store(scales, s);
        v_store(biases, kv_bias(strip, g, groups, f->zero, s));
        for (int64_t r = from; r < to; r++) {
            const uint8_t *p = strip + kv_param_bytes(f, d) + (r * d + g * f->group) * bits / 8;
            float *out = dst + (r - from) * dst_stride + g * f->group;
            for (int64_t i = 0; i < f->group; i += 32, p += 4 * bits)
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) v_store(out + i + 16 * v, v_fma(i_float(v_codes(bits, p, v)), v_set1(scales[r]), v_set1(biases[r])));
        }
    }
}

#define EACH_BITS(bits, call) \
    switch (bits) { \
    case 2: call(2); break; \
    case 3: call(3); break; \
    case 4: call(4); break; \
    case 5: call(5); break; \
    case 6: call(6); break; \
    default: call(8); \
    }

// dst [d, 16] = the K of a strip.
static __attribute__((unused)) void k_read(const struct kv_format *f, float *dst, int64_t dst_stride, const uint8_t *strip, int64_t d) {
#define READ(b) k_read_bits(b, f, dst, dst_stride, strip, d)
    EACH_BITS(f->bits, READ)
#undef READ
}

// dst [to-from, d] = the V of positions [from, to) of a strip.
static __attribute__((unused)) void v_read(const struct kv_format *f, float *dst, int64_t dst_stride, const uint8_t *strip, int64_t d, int64_t from, int64_t to) {
#define READ(b) v_read_bits(b, f, dst, dst_stride, strip, d, from, to)
    EACH_BITS(f->bits, READ)
#undef READ
}
#undef EACH_BITS
