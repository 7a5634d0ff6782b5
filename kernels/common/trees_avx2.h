// The primitives of trees.h for AVX2.

// Reduces eight vectors at once (trees.h). Each op does a step of two or more of their trees.
#define TREES(x, op) \
    __m256 y[4], z[2]; \
    for (int i = 0; i < 4; i++) { \
        const __m256 a = op((x)[i].a, (x)[i].b), b = op((x)[i + 4].a, (x)[i + 4].b); \
        y[i] = op(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)); \
    } \
    for (int i = 0; i < 2; i++) \
        z[i] = op(_mm256_shuffle_ps(y[2 * i], y[2 * i + 1], 0x44), \
                  _mm256_shuffle_ps(y[2 * i], y[2 * i + 1], 0xee)); \
    return op(_mm256_shuffle_ps(z[0], z[1], 0x88), _mm256_shuffle_ps(z[0], z[1], 0xdd))
SIMD __m256 KERNEL(sums8)(const f32x16 *x) { TREES(x, _mm256_add_ps); }
SIMD __m256 KERNEL(hmaxes8)(const f32x16 *x) { TREES(x, _mm256_max_ps); }
// Returns the higher magnitudes, compared by their bits. A NaN is above all others.
SIMD __m256 KERNEL(higher)(__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
SIMD __m256 KERNEL(highest8)(const f32x16 *x) { TREES(x, KERNEL(higher)); }
#undef TREES
SIMD f32x16 v_sums16(const f32x16 *x) { return (f32x16){KERNEL(sums8)(x), KERNEL(sums8)(x + 8)}; }
SIMD f32x16 v_hmaxes16(const f32x16 *x) {
    return (f32x16){KERNEL(hmaxes8)(x), KERNEL(hmaxes8)(x + 8)};
}
