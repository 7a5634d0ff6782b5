// The primitives of lanes.h with AVX2. Its panels have int8_tile_avx2.h.

#define LANES 8
#define MM(op) _mm256_##op
#define MMI(op) _mm256_##op##_si256
typedef __m256i lanes;
typedef __m256 lanesf;
SIMD lanes l_zero(void) { return _mm256_setzero_si256(); }
SIMD lanes l_add(lanes a, lanes b) { return _mm256_add_epi32(a, b); }
SIMD lanes KERNEL(l_widen)(lanes a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }
SIMD lanes l_merge(lanes a, lanes b, const int level, const int narrow) {
    if (level == 1) { // halves of quarters
        const lanes x = _mm256_blend_epi32(a, b, 0xcc), y = _mm256_alignr_epi8(b, a, 8);
        return narrow > 1 ? _mm256_add_epi16(x, y) : l_add(x, y);
    }
    if (level == 2) {
        if (narrow == 2) a = KERNEL(l_widen)(a), b = KERNEL(l_widen)(b);
        const __m256 c = _mm256_castsi256_ps(a), d = _mm256_castsi256_ps(b);
        const lanes x = _mm256_castps_si256(_mm256_shuffle_ps(c, d, 0x88)),
                    y = _mm256_castps_si256(_mm256_shuffle_ps(c, d, 0xdd));
        return narrow == 4 ? KERNEL(l_widen)(_mm256_add_epi16(x, y)) : l_add(x, y);
    }
    return l_add(_mm256_blend_epi32(a, b, 0xf0), _mm256_permute2x128_si256(a, b, 0x21));
}
SIMD lanes KERNEL(l_order)(lanes x, const int units) {
    return units == 2 ? _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
                      : x;
}
SIMD lanes KERNEL(l_dot7)(lanes acc, __m256i c, __m256i q) {
    return l_add(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(c, q), _mm256_set1_epi16(1)));
}
SIMD lanes KERNEL(l_dot)(lanes acc, __m256i c, __m256i q, const int wide) {
    if (!wide) return KERNEL(l_dot7)(acc, c, q);
    __m256i top = _mm256_set1_epi8((char)128);
    return KERNEL(l_dot7)(KERNEL(l_dot7)(acc, _mm256_andnot_si256(top, c), q),
                          _mm256_and_si256(top, c), q);
}

SIMD lanesf lf_load(const float *p) { return MM(loadu_ps)(p); }
SIMD void lf_store(float *p, lanesf x) { MM(storeu_ps)(p, x); }
SIMD lanesf lf_set1(float x) { return MM(set1_ps)(x); }
SIMD lanesf lf_mul(lanesf a, lanesf b) { return MM(mul_ps)(a, b); }
SIMD lanesf lf_add(lanesf a, lanesf b) { return MM(add_ps)(a, b); }
SIMD lanesf lf_fma(lanesf a, lanesf b, lanesf c) { return MM(fmadd_ps)(a, b, c); } // a*b + c
SIMD lanesf lf_of(lanes x) { return MM(cvtepi32_ps)(x); }
SIMD lanes p_load(const uint8_t *p) {
    lanes x;
    memcpy(&x, p, sizeof x);
    return x;
}
SIMD void KERNEL(p_store)(uint8_t *p, lanes x) { memcpy(p, &x, sizeof x); }
SIMD lanes KERNEL(p_four)(const int8_t *q) { // four codes in every lane
    int32_t four;
    memcpy(&four, q, 4);
    return MM(set1_epi32)(four);
}

// Transposes LANES vectors: row i of x becomes column i.
SIMD void p_transpose(lanes *x) {
    lanes y[LANES];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        lanes a = _mm256_unpacklo_epi32(x[i], x[i + 1]), b = _mm256_unpackhi_epi32(x[i], x[i + 1]);
        lanes c = _mm256_unpacklo_epi32(x[i + 2], x[i + 3]),
              d = _mm256_unpackhi_epi32(x[i + 2], x[i + 3]);
        y[i] = _mm256_unpacklo_epi64(a, c), y[i + 1] = _mm256_unpackhi_epi64(a, c);
        y[i + 2] = _mm256_unpacklo_epi64(b, d), y[i + 3] = _mm256_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_permute2x128_si256(y[i], y[4 + i], 0x20),
        x[4 + i] = _mm256_permute2x128_si256(y[i], y[4 + i], 0x31);
}

SIMD lanes c_part(codes64 c, const int i) { return i ? c.b : c.a; }

SIMD f32x16 as_floats(const lanes sums[16 / LANES]) {
    return (f32x16){_mm256_cvtepi32_ps(sums[0]), _mm256_cvtepi32_ps(sums[1])};
}

// Loads 32 bytes at `at` of each of LANES rows and transposes them: x[i] has bytes [4i, 4i+4) of
// every row. Halves of two rows are loaded as one vector, because moving halves between vectors is
// slow.
SIMD void KERNEL(p_columns)(const uint8_t *const *rows, int64_t at, lanes *x) {
    lanes y[8], z[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        y[i] = KERNEL(load_pair)(rows[i % 4] + at + i / 4 * 16, rows[4 + i % 4] + at + i / 4 * 16);
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        const lanes a = MM(unpacklo_epi32)(y[i], y[i + 1]), b = MM(unpackhi_epi32)(y[i], y[i + 1]);
        const lanes c = MM(unpacklo_epi32)(y[i + 2], y[i + 3]),
                    d = MM(unpackhi_epi32)(y[i + 2], y[i + 3]);
        z[i] = MM(unpacklo_epi64)(a, c), z[i + 1] = MM(unpackhi_epi64)(a, c);
        z[i + 2] = MM(unpacklo_epi64)(b, d), z[i + 3] = MM(unpackhi_epi64)(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { x[i] = z[i], x[4 + i] = z[4 + i]; }
}

// Splits two codes of 4 bits in a byte into bytes: the even codes and the odd ones.
SIMD void KERNEL(p_apart)(lanes x, const int mode, lanes *even, lanes *odd) {
    const lanes low = MM(set1_epi8)(15);
    *even = MMI(and)(x, low), *odd = MMI(and)(MM(srli_epi16)(x, 4), low);
    if (mode != MODE_MXFP4) return;
    const codes64 c = c_e2m1((codes64){*even, *odd});
    *even = c.a, *odd = c.b;
}

#define UNITS(bits, unit) ((bits) == 4 ? 64 / (unit) : 1)

// Activations are up to 127 and codes up to 15 or, of MXFP4, 24. leaf adds up four products.
#define NARROW(mode, bits) ((bits) != 4 ? 1 : (mode) == MODE_MXFP4 ? 2 : 4)

SIMD void KERNEL(leaf)(const block *b, const int i, const int mr, const int mode, const int bits,
                       const int unit, lanes *out) {
    if (bits == 4) {
        if (i % 2 == 0) __builtin_prefetch(b->ahead + 32 * i);
        __m256i x = _mm256_loadu_si256((const __m256i *)(b->codes + 32 * i)),
                low = _mm256_set1_epi8(15);
        __asm__("" : "+x"(x)); // otherwise GCC loads it twice
        __m256i even = _mm256_and_si256(x, low),
                odd = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
        if (mode == MODE_MXFP4) {
            codes64 values = c_e2m1((codes64){even, odd});
            even = values.a, odd = values.b;
        }
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) {
            const __m256i *q = (const __m256i *)(b->q[m] + 64 * i);
            out[m] = _mm256_add_epi16(_mm256_maddubs_epi16(even, _mm256_loadu_si256(q)),
                                      _mm256_maddubs_epi16(odd, _mm256_loadu_si256(q + 1)));
        }
        return;
    }
    const int chunk = i * unit / 64;
    __builtin_prefetch(b->ahead + 8 * bits * chunk);
    codes64 c = c_load(b->codes + 8 * bits * chunk, bits);
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        const __m256i *q = (const __m256i *)(b->q[m] + 64 * chunk);
        if (unit == 32)
            out[m] = KERNEL(l_dot)(l_zero(), i % 2 ? c.b : c.a, _mm256_loadu_si256(q + i % 2),
                                   bits == 8);
        else
            out[m] = KERNEL(l_dot)(KERNEL(l_dot)(l_zero(), c.a, _mm256_loadu_si256(q), bits == 8),
                                   c.b, _mm256_loadu_si256(q + 1), bits == 8);
    }
}
