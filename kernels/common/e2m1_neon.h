// The primitives of mxfp4.h for NEON.

#define E2M1_OFFSET 0

SIMD codes64 c_e2m1(codes64 c) {
    static const int8_t values[16] = {E2M1(E2M1_OFFSET)};
    uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(values));
    return (codes64){{vqtbl1q_u8(table, c.v[0]), vqtbl1q_u8(table, c.v[1]),
                      vqtbl1q_u8(table, c.v[2]), vqtbl1q_u8(table, c.v[3])}};
}
SIMD f32x16 c_e2m1_float(codes64 c, int i) {
    int8x16_t x = vreinterpretq_s8_u8(c.v[i]);
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_s8(vget_high_s8(x));
    return (f32x16){
        {vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
         vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)))}};
}
SIMD float32x4_t KERNEL(e8m0_quarter)(uint16x4_t x) {
    return vreinterpretq_f32_u32(vmaxq_u32(vshlq_n_u32(vmovl_u16(x), 23), vdupq_n_u32(1 << 22)));
}
SIMD f32x16 v_e8m0(const uint8_t *p) {
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_u8(vget_high_u8(x));
    return (f32x16){
        {KERNEL(e8m0_quarter)(vget_low_u16(lo)), KERNEL(e8m0_quarter)(vget_high_u16(lo)),
         KERNEL(e8m0_quarter)(vget_low_u16(hi)), KERNEL(e8m0_quarter)(vget_high_u16(hi))}};
}
