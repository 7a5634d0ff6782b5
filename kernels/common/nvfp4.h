// NVFP4 weights: codes as in MXFP4, of which each 16 have a scale that is a byte as the codes of
// MXFP8 are. Each row has a float that multiplies its scales: element = value(code) * (value(scale)
// * global). Included by a kernel's ISA half, so it has no include guard, after mxfp8.h.

#define v_load_e4m3_scales KERNEL(v_load_e4m3_scales)
#define nvfp4_row KERNEL(nvfp4_row)

// Loads scales [at, at+16) of a row of n scales, each times the row's global scale and halved,
// because decoded values are doubled. Scales past n are undefined. v_load_e4m3 doubles them.
SIMD f32x16 v_load_e4m3_scales(const uint8_t *row, int64_t at, int64_t n, float global) {
    uint8_t t[16] = {0};
    const uint8_t *p = row + at;
    if (n - at < 16) {
        if (n > at) memcpy(t, p, (size_t)(n - at));
        p = t;
    }
    return v_mul(v_load_e4m3(p), v_set1(global * 0.25f));
}

// Dequantizes a row of k elements, a multiple of 32, to out.
static __attribute__((unused)) void nvfp4_row(const uint8_t *codes, const uint8_t *scales,
                                              float global, int64_t k, float *out) {
    float s[16];
    for (int64_t at = 0; at < k; at += 64) {
        if (at % 256 == 0) v_store(s, v_load_e4m3_scales(scales, at / 16, k / 16, global));
        int vectors = k - at >= 64 ? 4 : 2;
        codes64 c =
            c_e2m1(vectors == 4 ? c_load(codes + at / 2, 4) : c_load_half(codes + at / 2, 4));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            if (i == vectors) break;
            v_store(out + at + 16 * i, v_mul(c_e2m1_float(c, i), v_set1(s[(at / 16 + i) % 16])));
        }
    }
}
