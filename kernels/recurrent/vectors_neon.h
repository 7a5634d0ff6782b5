// The primitives of vectors.h for NEON.

#define ROWS_AT_ONCE 2
#define FLOAT_PASS_WIDTH 0

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

typedef float32x4_t KERNEL(quad); // the sums themselves
SIMD float32x4_t KERNEL(meet)(const int largest, float32x4_t x, float32x4_t y) {
    return largest ? vmaxq_f32(x, y) : vaddq_f32(x, y);
}

SIMD KERNEL(quad) KERNEL(fold4)(const int largest, const f32x16 *a) {
    float32x4_t q[4];
    for (int j = 0; j < 4; j++) {
        const float32x4_t *v = a[j].v;
        q[j] = KERNEL(meet)(
            largest, KERNEL(meet)(largest, v[0], v[2]), KERNEL(meet)(largest, v[1], v[3]));
    }
    float32x4_t x = KERNEL(meet)(largest, vcombine_f32(vget_low_f32(q[0]), vget_low_f32(q[1])),
        vcombine_f32(vget_high_f32(q[0]), vget_high_f32(q[1])));
    float32x4_t y = KERNEL(meet)(largest, vcombine_f32(vget_low_f32(q[2]), vget_low_f32(q[3])),
        vcombine_f32(vget_high_f32(q[2]), vget_high_f32(q[3])));
    return largest ? vpmaxq_f32(x, y) : vpaddq_f32(x, y);
}

SIMD f32x16 KERNEL(fold16)(const int largest, const KERNEL(quad) * c) {
    return (void)largest, (f32x16){{c[0], c[1], c[2], c[3]}};
}
