// The primitives of kv_codes.h that AVX-512 and AVX2 share. MM(op) is an intrinsic on the lanes of
// a register and MMI(op) one on all its bits. l_spread loads a plane of V of 1 or 2 bits and shifts
// it, so that the bits that v_plane returns are the lowest of each byte.

SIMD lanes_i l_zero(void) { return MM(set1_epi32)(0); }
SIMD lanes_i l_load(const uint8_t *p) { return MMI(loadu)((const lanes_i *)p); }
SIMD lanes_i l_field(lanes_i x, const int shift, const int width) {
    if (shift) x = MM(srli_epi32)(x, (unsigned)shift);
    return width < 8 ? MMI(and)(x, MM(set1_epi8)((char)((1 << width) - 1))) : x;
}
SIMD lanes_i l_join(lanes_i low, lanes_i high, const int bits) {
    return MMI(or)(low, MM(slli_epi32)(high, (unsigned)bits));
}
SIMD lanes_f l_float(lanes_i x) { return MM(cvtepi32_ps)(x); }
SIMD lanes_f l_set1(float x) { return MM(set1_ps)(x); }
SIMD lanes_f l_loadf(const float *p) { return MM(loadu_ps)(p); }
SIMD void l_storef(float *p, lanes_f x) { MM(storeu_ps)(p, x); }
SIMD lanes_f l_mul(lanes_f x, lanes_f y) { return MM(mul_ps)(x, y); }
SIMD lanes_f l_fma(lanes_f x, lanes_f y, lanes_f z) { return MM(fmadd_ps)(x, y, z); }
SIMD lanes_i l_byte(lanes_i x, const int j) {
    return MMI(and)(MM(srli_epi32)(x, (unsigned)(8 * j)), MM(set1_epi32)(255));
}
SIMD lanes_i v_plane(const int width, const uint8_t *p, const int v, const int h) {
    switch (width) {
    case 8: return l_load(p + 64 * v + 4 * LANES * h);
    case 4: return l_field(l_load(p + 4 * LANES * h), 4 * v, 4);
    default: return l_field(l_spread(p, width, v, h), 0, width);
    }
}
