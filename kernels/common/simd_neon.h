// f32x16 and the primitives of simd.h for NEON.

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
