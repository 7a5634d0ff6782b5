// The primitives of kv_codes.h for NEON.

#define LANES 4
typedef uint32x4_t lanes_i;
typedef float32x4_t lanes_f;
SIMD lanes_i l_zero(void) { return vdupq_n_u32(0); }
SIMD lanes_i l_load(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
SIMD lanes_i l_field(lanes_i x, const int shift, const int width) {
    return vreinterpretq_u32_u8(vandq_u8(vreinterpretq_u8_u32(vshlq_u32(x, vdupq_n_s32(-shift))),
        vdupq_n_u8((uint8_t)((1 << width) - 1))));
}
SIMD lanes_i l_join(lanes_i low, lanes_i high, const int bits) {
    return vorrq_u32(low, vshlq_u32(high, vdupq_n_s32(bits)));
}
SIMD lanes_f l_float(lanes_i x) { return vcvtq_f32_s32(vreinterpretq_s32_u32(x)); }
SIMD lanes_f l_set1(float x) { return vdupq_n_f32(x); }
SIMD lanes_f l_loadf(const float *p) { return vld1q_f32(p); }
SIMD void l_storef(float *p, lanes_f x) { vst1q_f32(p, x); }
SIMD lanes_f l_mul(lanes_f x, lanes_f y) { return vmulq_f32(x, y); }
SIMD lanes_f l_fma(lanes_f x, lanes_f y, lanes_f z) { return vfmaq_f32(z, x, y); }
SIMD lanes_f l_part(f32x16 x, const int h) { return x.v[h]; }
SIMD lanes_i l_byte(lanes_i x, const int j) {
    return vandq_u32(vshlq_u32(x, vdupq_n_s32(-8 * j)), vdupq_n_u32(255));
}

SIMD lanes_i v_plane(const int width, const uint8_t *p, const int v, const int h) {
    switch (width) {
    case 8: return l_load(p + 64 * v + 16 * h);
    case 4: return l_field(l_load(p + 16 * h), 4 * v, 4);
    case 2: return l_field(l_load(p + 16 * (h % 2)), 2 * (2 * v + h / 2), 2);
    default: return l_field(l_load(p), 4 * v + h, 1);
    }
}

SIMD void store_codes(uint8_t *codes, f32x16 x) {
    uint16x8_t words[2];
    for (int i = 0; i < 2; i++)
        words[i] = vcombine_u16(
            vmovn_u32(vcvtq_u32_f32(x.v[2 * i])), vmovn_u32(vcvtq_u32_f32(x.v[2 * i + 1])));
    vst1q_u8(codes, vcombine_u8(vmovn_u16(words[0]), vmovn_u16(words[1])));
}

// An f32x16 is four registers.
#define MAX_N(rows) 1
#define EACH_BLOCK BLOCKS(1)
