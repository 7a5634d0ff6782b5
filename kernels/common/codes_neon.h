// The primitives of affine.h for NEON.

typedef struct {
    uint8x16_t v[4];
} codes64; // codes 0-15, 16-31, 32-47, 48-63

SIMD uint8x16_t KERNEL(pick)(const uint8_t *p, const char *lo, const char *hi, const short *top,
                             int bits) {
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t t = vld1q_u16((const uint16_t *)top);
    int16x8_t down = vdupq_n_s16((int16_t)(bits - 16));
    uint16x8_t l = vshlq_u16(
        vmulq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(x, vld1q_u8((const uint8_t *)lo))), t), down);
    uint16x8_t h = vshlq_u16(
        vmulq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(x, vld1q_u8((const uint8_t *)hi))), t), down);
    return vcombine_u8(vmovn_u16(l), vmovn_u16(h));
}
#define PICK(b) \
    { \
        static const char lo[64] = {SHUFFLE(0, 0, b), SHUFFLE(1, 0, b), SHUFFLE(2, 0, b), \
                                    SHUFFLE(3, 0, b)}; \
        static const char hi[64] = {SHUFFLE(0, 8, b), SHUFFLE(1, 8, b), SHUFFLE(2, 8, b), \
                                    SHUFFLE(3, 8, b)}; \
        static const short top[8] = {TOPS(b)}; \
        return (codes64){{KERNEL(pick)(p + WINDOW(0, b), lo, hi, top, b), \
                          KERNEL(pick)(p + WINDOW(1, b), lo + 16, hi + 16, top, b), \
                          KERNEL(pick)(p + WINDOW(2, b), lo + 32, hi + 32, top, b), \
                          KERNEL(pick)(p + WINDOW(3, b), lo + 48, hi + 48, top, b)}}; \
    }
SIMD codes64 c_load(const uint8_t *p, int bits) {
    switch (bits) {
    case 2: PICK(2)
    case 3: PICK(3)
    case 5: PICK(5)
    case 6: PICK(6)
    case 4: {
        uint8x16_t x = vld1q_u8(p), y = vld1q_u8(p + 16), mask = vdupq_n_u8(15);
        uint8x16_t xl = vandq_u8(x, mask), xh = vshrq_n_u8(x, 4), yl = vandq_u8(y, mask),
                   yh = vshrq_n_u8(y, 4);
        return (codes64){
            {vzip1q_u8(xl, xh), vzip2q_u8(xl, xh), vzip1q_u8(yl, yh), vzip2q_u8(yl, yh)}};
    }
    }
    return (codes64){{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
SIMD void c_store(uint8_t *p, codes64 c) {
    for (int i = 0; i < 4; i++) vst1q_u8(p + 16 * i, c.v[i]);
}
SIMD f32x16 c_float(codes64 c, int i) {
    uint16x8_t lo = vmovl_u8(vget_low_u8(c.v[i])), hi = vmovl_u8(vget_high_u8(c.v[i]));
    return (f32x16){
        {vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(lo))),
         vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(hi)))}};
}

SIMD f32x16 v_load_param(const void *row, int dtype, int64_t at, int64_t n) {
    if (dtype == DTYPE_F32) {
        const float *p = (const float *)row + at;
        return n - at >= 16 ? v_load(p) : v_load_n(p, n > at ? (int)(n - at) : 0);
    }
    const uint16_t *p = (const uint16_t *)row + at;
    uint16_t t[16] = {0};
    if (n - at < 16) {
        for (int i = 0; i < n - at; i++) t[i] = p[i];
        p = t;
    }
    return dtype == DTYPE_BF16 ? v_load_bf16(p) : v_load_f16(p);
}
