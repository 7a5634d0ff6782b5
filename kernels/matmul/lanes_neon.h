// The primitives of lanes.h with NEON and its dot products.

#define LANES 4
typedef int32x4_t lanes;
SIMD lanes l_zero(void) { return vdupq_n_s32(0); }
SIMD lanes l_add(lanes a, lanes b) { return vaddq_s32(a, b); }
SIMD lanes l_merge(lanes a, lanes b, const int level, const int narrow) {
    return (void)level, (void)narrow, vpaddq_s32(a, b);
}
SIMD lanes KERNEL(l_order)(lanes x, const int units) { return (void)units, x; }
// The dot product is of signed bytes, so the top bit of wide codes is multiplied separately.
SIMD lanes KERNEL(l_dot)(lanes acc, uint8x16_t c, int8x16_t q, const int wide) {
    if (!wide) return vdotq_s32(acc, vreinterpretq_s8_u8(c), q);
    int32x4_t top = vdotq_s32(vdupq_n_s32(0), vreinterpretq_s8_u8(vshrq_n_u8(c, 7)), q);
    return vdotq_s32(vaddq_s32(acc, vshlq_n_s32(top, 7)),
                     vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(127))), q);
}

typedef float32x4_t lanesf;
SIMD lanesf lf_load(const float *p) { return vld1q_f32(p); }
SIMD void lf_store(float *p, lanesf x) { vst1q_f32(p, x); }
SIMD lanesf lf_set1(float x) { return vdupq_n_f32(x); }
SIMD lanesf lf_mul(lanesf a, lanesf b) { return vmulq_f32(a, b); }
SIMD lanesf lf_add(lanesf a, lanesf b) { return vaddq_f32(a, b); }
SIMD lanesf lf_fma(lanesf a, lanesf b, lanesf c) { return vfmaq_f32(c, a, b); } // a*b + c
SIMD lanesf lf_of(lanes x) { return vcvtq_f32_s32(x); }
SIMD lanes p_load(const uint8_t *p) { return vld1q_s32((const int32_t *)p); }
SIMD void KERNEL(p_store)(uint8_t *p, lanes x) { vst1q_s32((int32_t *)p, x); }

// Transposes LANES vectors: row i of x becomes column i.
SIMD void p_transpose(lanes *x) {
    lanes y[LANES];
    int32x4x2_t a = vtrnq_s32(x[0], x[1]), b = vtrnq_s32(x[2], x[3]);
    for (int i = 0; i < 2; i++) {
        y[i] = vcombine_s32(vget_low_s32(a.val[i]), vget_low_s32(b.val[i]));
        y[2 + i] = vcombine_s32(vget_high_s32(a.val[i]), vget_high_s32(b.val[i]));
    }
    for (int i = 0; i < 4; i++) x[i] = y[i];
}

SIMD lanes c_part(codes64 c, const int i) { return vreinterpretq_s32_u8(c.v[i]); }

SIMD f32x16 as_floats(const lanes sums[16 / LANES]) {
    return (f32x16){{vcvtq_f32_s32(sums[0]), vcvtq_f32_s32(sums[1]), vcvtq_f32_s32(sums[2]),
                     vcvtq_f32_s32(sums[3])}};
}

#define UNITS(bits, unit) 1
#define NARROW(mode, bits) 0 // l_merge adds in 32 bits only

SIMD void KERNEL(leaf)(const block *b, const int i, const int mr, const int mode, const int bits,
                       const int unit, lanes *out) {
    const int chunk = i * unit / 64, half = unit == 32 ? i % 2 : 0;
    __builtin_prefetch(b->ahead + 8 * bits * chunk);
    codes64 c;
    if (bits == 4) {
        for (int j = 0; j < 2; j++) {
            uint8x16_t x = vld1q_u8(b->codes + 32 * chunk + 16 * j);
            c.v[j] = vandq_u8(x, vdupq_n_u8(15));
            c.v[2 + j] = vshrq_n_u8(x, 4);
        }
        if (mode == MODE_MXFP4) c = c_e2m1(c);
    } else {
        c = c_load(b->codes + 8 * bits * chunk, bits);
    }
    // Of a unit of 32: vectors 0 and 2 or 1 and 3 where even and odd elements are apart, otherwise
    // the first or the last two.
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        lanes sum = l_zero();
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            if (unit == 64 || (bits == 4 ? j % 2 : j / 2) == half)
                sum =
                    KERNEL(l_dot)(sum, c.v[j], vld1q_s8(b->q[m] + 64 * chunk + 16 * j), bits == 8);
        out[m] = sum;
    }
}

#define EACH_FITS(F) F(8) F(0)
#define FITS_OF(F) F(8), F(8), F(0)
SIMD void p_unit(const uint8_t *codes, const int8_t *q, const int mr, const int unit,
                 const int fits, lanes (*sums)[2]) {
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) sums[m][0] = sums[m][1] = l_zero();
    const int8x16_t one = vdupq_n_s8(1);
    int32_t middle[PANEL_INPUTS];
    for (int m = 0; m < mr; m++) middle[m] = 0;
#pragma GCC unroll 4
    for (int s = 0; s < unit / 4; s += 4) {
        int8x16_t x[PANEL_INPUTS];
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++) x[m] = vld1q_s8(q + m * unit + 4 * s);
        if (fits == 0) // products are of signed bytes: codes go as code-128
            for (int m = 0; m < mr; m++)
                middle[m] += 128 * vaddvq_s32(vdotq_s32(l_zero(), x[m], one));
#define STEP(i) \
    { \
        int8x16_t a = vreinterpretq_s8_s32(p_load(codes + (s + i) * PANEL_ROWS * 4)), \
                  b = vreinterpretq_s8_s32(p_load(codes + (s + i) * PANEL_ROWS * 4 + 16)); \
        if (fits == 0) a = veorq_s8(a, vdupq_n_s8(-128)), b = veorq_s8(b, vdupq_n_s8(-128)); \
        _Pragma("GCC unroll 8") for (int m = 0; m < mr; m++) { \
            sums[m][0] = vdotq_laneq_s32(sums[m][0], a, x[m], i); \
            sums[m][1] = vdotq_laneq_s32(sums[m][1], b, x[m], i); \
        } \
    }
        STEP(0) STEP(1) STEP(2) STEP(3)
#undef STEP
    }
    if (fits == 0)
        for (int m = 0; m < mr; m++)
            for (int v = 0; v < 2; v++) sums[m][v] = l_add(sums[m][v], vdupq_n_s32(middle[m]));
}
