// The primitives of lanes.h with AVX-512, for its sets with and without VNNI.

#define LANES 16
#define MM(op) _mm512_##op
#define MMI(op) _mm512_##op##_si512
typedef __m512i lanes;
typedef __m512 lanesf;
SIMD lanes l_zero(void) { return _mm512_setzero_si512(); }
SIMD lanes l_add(lanes a, lanes b) { return _mm512_add_epi32(a, b); }
SIMD lanes l_merge(lanes a, lanes b, const int level, const int narrow) {
    // a's lanes 0+1 and 2+3 of a quarter, then b's
    if (level <= narrow) return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1));
    switch (level) {
    case 1: return l_add(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    case 2:
        if (narrow == 0) return l_add(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        const __m512 c = _mm512_castsi512_ps(a), d = _mm512_castsi512_ps(b);
        return l_add(_mm512_castps_si512(_mm512_shuffle_ps(c, d, 0x88)),
                     _mm512_castps_si512(_mm512_shuffle_ps(c, d, 0xdd)));
    }
    return l_add(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}
// Puts units in order, where a vector of leaf held 1, 2 or 4 of them.
SIMD lanes KERNEL(l_order)(lanes x, const int units) {
    if (units == 2)
        return _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), x);
    if (units == 4)
        return _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
    return x;
}
#if ISA == ISA_VNNI
SIMD lanes KERNEL(l_dot)(lanes acc, __m512i c, __m512i q, const int wide) {
    return (void)wide, _mm512_dpbusd_epi32(acc, c, q);
}
#else
// maddubs adds two products in 16 bits, which holds codes up to 128. The top bit of wider codes is
// multiplied separately.
SIMD lanes KERNEL(l_dot7)(lanes acc, __m512i c, __m512i q) {
    return l_add(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(c, q), _mm512_set1_epi16(1)));
}
SIMD lanes KERNEL(l_dot)(lanes acc, __m512i c, __m512i q, const int wide) {
    if (!wide) return KERNEL(l_dot7)(acc, c, q);
    __m512i top = _mm512_set1_epi8((char)128);
    return KERNEL(l_dot7)(KERNEL(l_dot7)(acc, _mm512_andnot_si512(top, c), q),
                          _mm512_and_si512(top, c), q);
}
#endif

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
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        lanes a = _mm512_unpacklo_epi32(x[i], x[i + 1]), b = _mm512_unpackhi_epi32(x[i], x[i + 1]);
        lanes c = _mm512_unpacklo_epi32(x[i + 2], x[i + 3]),
              d = _mm512_unpackhi_epi32(x[i + 2], x[i + 3]);
        y[i] = _mm512_unpacklo_epi64(a, c), y[i + 1] = _mm512_unpackhi_epi64(a, c);
        y[i + 2] = _mm512_unpacklo_epi64(b, d), y[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { // quarter j of y[i], y[4+i], y[8+i], y[12+i] is row 4j+i
        lanes a = _mm512_shuffle_i32x4(y[i], y[4 + i], 0x88),
              b = _mm512_shuffle_i32x4(y[i], y[4 + i], 0xdd);
        lanes c = _mm512_shuffle_i32x4(y[8 + i], y[12 + i], 0x88),
              d = _mm512_shuffle_i32x4(y[8 + i], y[12 + i], 0xdd);
        x[i] = _mm512_shuffle_i32x4(a, c, 0x88), x[8 + i] = _mm512_shuffle_i32x4(a, c, 0xdd);
        x[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88), x[12 + i] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

SIMD lanes c_part(codes64 c, const int i) { return (void)i, c; }

SIMD f32x16 as_floats(const lanes sums[16 / LANES]) { return _mm512_cvtepi32_ps(sums[0]); }

// Loads 32 bytes at `at` of each of LANES rows and transposes them: x[i] has bytes [4i, 4i+4) of
// every row. Two rows are loaded as one vector, because moving halves between vectors is slow.
SIMD void KERNEL(p_columns)(const uint8_t *const *rows, int64_t at, lanes *x) {
    lanes y[8], z[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        y[i] = _mm512_inserti64x4(
            _mm512_castsi256_si512(
                _mm256_loadu_si256((const __m256i *)(rows[i / 4 * 8 + i % 4] + at))),
            _mm256_loadu_si256((const __m256i *)(rows[i / 4 * 8 + i % 4 + 4] + at)), 1);
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        const lanes a = MM(unpacklo_epi32)(y[i], y[i + 1]), b = MM(unpackhi_epi32)(y[i], y[i + 1]);
        const lanes c = MM(unpacklo_epi32)(y[i + 2], y[i + 3]),
                    d = MM(unpackhi_epi32)(y[i + 2], y[i + 3]);
        z[i] = MM(unpacklo_epi64)(a, c), z[i + 1] = MM(unpackhi_epi64)(a, c);
        z[i + 2] = MM(unpacklo_epi64)(b, d), z[i + 3] = MM(unpackhi_epi64)(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_i32x4(z[i], z[4 + i], 0x88),
        x[4 + i] = _mm512_shuffle_i32x4(z[i], z[4 + i], 0xdd);
    }
}

// Splits two codes of 4 bits in a byte into bytes: the even codes and the odd ones.
SIMD void KERNEL(p_apart)(lanes x, const int mode, lanes *even, lanes *odd) {
    const lanes low = MM(set1_epi8)(15);
    *even = MMI(and)(x, low), *odd = MMI(and)(MM(srli_epi16)(x, 4), low);
    if (mode != MODE_MXFP4) return;
    *even = c_e2m1(*even), *odd = c_e2m1(*odd);
}

#define UNITS(bits, unit) (((bits) == 4 ? 2 : 1) * 64 / (unit))

// Activations are up to 127 and codes up to 15 or, of MXFP4, 24. leaf adds up eight products of
// 4-bit codes and four of others, and each level adds two of those sums.
#define NARROW(mode, bits) ((bits) == 8 ? 0 : (bits) == 6 || (mode) == MODE_MXFP4 ? 1 : 2)

SIMD void KERNEL(leaf)(const block *b, const int i, const int mr, const int mode, const int bits,
                       const int unit, lanes *out) {
    if (bits == 4) { // two chunks at a time
        __builtin_prefetch(b->ahead + 64 * i);
        __m512i x = _mm512_loadu_si512(b->codes + 64 * i), low = _mm512_set1_epi8(15);
        __m512i even = _mm512_and_si512(x, low),
                odd = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
        if (mode == MODE_MXFP4) even = c_e2m1(even), odd = c_e2m1(odd);
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) {
            const int8_t *q = b->q[m] + 128 * i;
            out[m] = KERNEL(l_dot)(KERNEL(l_dot)(l_zero(), even, _mm512_loadu_si512(q), 0), odd,
                                   _mm512_loadu_si512(q + 64), 0);
        }
        return;
    }
    __builtin_prefetch(b->ahead + 8 * bits * i);
    codes64 c = c_load(b->codes + 8 * bits * i, bits);
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++)
        out[m] = KERNEL(l_dot)(l_zero(), c, _mm512_loadu_si512(b->q[m] + 64 * i), bits == 8);
    (void)unit;
}

#if ISA == ISA_VNNI
// One instruction multiplies codes of any width.
#define EACH_FITS(F) F(8)
#define FITS_OF(F) F(8), F(8), F(8)
SIMD void p_unit(const uint8_t *codes, const int8_t *q, const int mr, const int unit,
                 const int fits, lanes (*sums)[2]) {
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) sums[m][0] = sums[m][1] = l_zero();
    (void)fits;
#pragma GCC unroll 16
    for (int s = 0; s < unit / 4; s++) {
        const lanes a = p_load(codes + s * PANEL_ROWS * 4),
                    b = p_load(codes + s * PANEL_ROWS * 4 + LANES * 4);
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++) {
            const lanes x = KERNEL(p_four)(q + m * unit + 4 * s);
            sums[m][0] = _mm512_dpbusd_epi32(sums[m][0], a, x);
            sums[m][1] = _mm512_dpbusd_epi32(sums[m][1], b, x);
        }
    }
}
#else
#define EACH_FITS(F) F(8) F(2) F(0)
#define FITS_OF(F) F(8), F(2), F(0)
SIMD void p_unit(const uint8_t *codes, const int8_t *q, const int mr, const int unit,
                 const int fits, lanes (*sums)[2]) {
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) sums[m][0] = sums[m][1] = l_zero();
    const lanes one = MM(set1_epi16)(1), top = MM(set1_epi8)((char)128);
    const int run = fits == 0 ? 1 : fits;
#pragma GCC unroll 16
    for (int first = 0; first < unit / 4; first += run) {
        lanes pairs[PANEL_INPUTS][2];
#pragma GCC unroll 8
        for (int s = first; s < first + run; s++) {
            lanes a = p_load(codes + s * PANEL_ROWS * 4),
                  b = p_load(codes + s * PANEL_ROWS * 4 + LANES * 4), x;
#pragma GCC unroll 8
            for (int m = 0; m < mr; m++) {
                x = KERNEL(p_four)(q + m * unit + 4 * s);
                if (fits == 0) {
                    // maddubs adds two products in 16 bits: safe for codes up to 128, so the top
                    // bit goes apart
                    const lanes low = MM(set1_epi8)(127);
                    for (int v = 0; v < 2; v++) {
                        const lanes c = v ? b : a;
                        sums[m][v] =
                            l_add(sums[m][v],
                                  MM(madd_epi16)(MM(maddubs_epi16)(MMI(and)(low, c), x), one));
                        sums[m][v] =
                            l_add(sums[m][v],
                                  MM(madd_epi16)(MM(maddubs_epi16)(MMI(and)(top, c), x), one));
                    }
                    continue;
                }
                const lanes ax = MM(maddubs_epi16)(a, x), bx = MM(maddubs_epi16)(b, x);
                pairs[m][0] = s == first ? ax : MM(add_epi16)(pairs[m][0], ax);
                pairs[m][1] = s == first ? bx : MM(add_epi16)(pairs[m][1], bx);
                // without it GCC builds trees of the sums and runs out of registers
                __asm__("" : "+v"(pairs[m][0]), "+v"(pairs[m][1]));
            }
        }
        if (fits == 0) continue;
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++)
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++)
                sums[m][v] = l_add(sums[m][v], MM(madd_epi16)(pairs[m][v], one));
    }
}
#endif
