// The primitive of mxfp8.h for NEON.

SIMD float16x8_t KERNEL(e4m3_half)(uint8x16_t high_bytes) {
    int16x8_t x = vshrq_n_s16(vreinterpretq_s16_u8(high_bytes), 1);
    return vreinterpretq_f16_s16(veorq_s16(
        x, vandq_s16(vaddq_s16(x, vdupq_n_s16(E4M3_ONE)), vdupq_n_s16(E4M3_GAP))));
}
SIMD f32x16 v_load_e4m3(const uint8_t *p) {
    uint8x16_t codes = vld1q_u8(p), zero = vdupq_n_u8(0);
    float16x8_t lo = KERNEL(e4m3_half)(vzip1q_u8(zero, codes)),
                hi = KERNEL(e4m3_half)(vzip2q_u8(zero, codes));
    return v_mul((f32x16){{vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo),
                           vcvt_f32_f16(vget_low_f16(hi)), vcvt_high_f32_f16(hi)}},
                 v_set1(E4M3_FACTOR));
}
