// The primitives of trees.h for AVX-512.

#define TREES(op) \
    __m512 y[8], z[4], u[2]; \
    for (int i = 0; i < 8; i++) { \
        const f32x16 a = x[8 * (i % 2) + i / 2], b = x[8 * (i % 2) + 4 + i / 2]; \
        y[i] = op(_mm512_shuffle_f32x4(a, b, 0xee), _mm512_shuffle_f32x4(a, b, 0x44)); \
    } \
    for (int i = 0; i < 4; i++) \
        z[i] = op(_mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0xdd), \
                  _mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0x88)); \
    for (int i = 0; i < 2; i++) \
        u[i] = op(_mm512_shuffle_ps(z[2 * i], z[2 * i + 1], 0x44), \
                  _mm512_shuffle_ps(z[2 * i], z[2 * i + 1], 0xee)); \
    return op(_mm512_shuffle_ps(u[0], u[1], 0x88), _mm512_shuffle_ps(u[0], u[1], 0xdd))
SIMD f32x16 v_sums16(const f32x16 *x) { TREES(v_add); }
SIMD f32x16 v_hmaxes16(const f32x16 *x) { TREES(v_max); }
#undef TREES
