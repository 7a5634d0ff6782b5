// The primitives of trees.h for NEON.

SIMD f32x16 v_sums16(const f32x16 *x) {
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = v_sum(x[i]);
    return v_load(y);
}
SIMD f32x16 v_hmaxes16(const f32x16 *x) {
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = v_hmax(x[i]);
    return v_load(y);
}
