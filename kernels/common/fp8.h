// FP8 weights: codes as in MXFP8, of which each `group`, a multiple of 32, have a float32 scale.
// The last group of a row may be shorter. Included by a kernel's ISA half, so it has no include
// guard, after mxfp8.h.

#define fp8_row KERNEL(fp8_row)

// Dequantizes a row of k elements, a multiple of 32, to out.
static __attribute__((unused)) void fp8_row(const uint8_t *codes, const float *scales,
                                            int64_t group, int64_t k, float *out) {
    for (int64_t at = 0; at < k;) {
        const f32x16 scale = v_set1(*scales++ * 0.5f); // v_load_e4m3 doubles values
        const int64_t end = k - at < group ? k : at + group;
        for (; at < end; at += 16) v_store(out + at, v_mul(v_load_e4m3(codes + at), scale));
    }
}
