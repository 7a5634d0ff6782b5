// Unpacks the codes of quantized pages one register at a time. quantized.go describes the layout. A
// register has LANES lanes of 32 bits: the 16 lanes of f32x16 are one, two or four registers. The
// four bytes of a lane are four dimensions of one position (K) or four positions of one dimension
// (V). Instructions that add products of neighbouring bytes therefore sum along the inner index.
// Sums of integers are exact in any order. Included once per instruction set, before kv_format.h.
//
// The file of each set (kv_lanes_avx512.h, kv_lanes_avx2.h, kv_lanes_neon.h) defines the primitives
// of quantized pages:
//
// LANES                  lanes in a register
// lanes_i, l_zero, l_load
//                        such a register of codes or sums
// l_field(x, shift, width)
//                        bits [shift, shift+width) of each byte
// l_join(low, high, bits)
//                        joins each byte of high, shifted left by bits, with the same byte of low
// l_byte(x, j)           byte j of each lane
// lanes_f, l_set1, l_loadf, l_storef, l_mul
//                        a register of floats
// l_float                integers as floats
// l_fma(x, y, z)         x*y + z
// l_part(x, h)           lanes [LANES*h, LANES*(h+1)) of sixteen
// v_plane(width, p, v, h)
//                        the bits that a plane of V holds of dimensions 16v + LANES*h + [0,
//                        LANES) of a bundle
// store_codes(codes, x)  stores sixteen values in [0, 256), truncated to integers, as bytes
// MAX_N(rows)            the most f32x16 columns of a block of a float32 product (kv_product.h)
// EACH_BLOCK             the cases of those blocks

#define lanes_i KERNEL(lanes_i)
#define lanes_f KERNEL(lanes_f)
#define l_zero KERNEL(l_zero)
#define l_load KERNEL(l_load)
#define l_field KERNEL(l_field)
#define l_join KERNEL(l_join)
#define l_float KERNEL(l_float)
#define l_set1 KERNEL(l_set1)
#define l_loadf KERNEL(l_loadf)
#define l_storef KERNEL(l_storef)
#define l_mul KERNEL(l_mul)
#define l_fma KERNEL(l_fma)
#define l_part KERNEL(l_part)
#define l_spread KERNEL(l_spread)
#define l_byte KERNEL(l_byte)
#define store_codes KERNEL(store_codes)
#define v_plane KERNEL(v_plane)
#define k_plane KERNEL(k_plane)
#define k_quad KERNEL(k_quad)
#define v_quad KERNEL(v_quad)

#undef LANES
#undef MM
#undef MMI
#undef MAX_N
#undef EACH_BLOCK

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "kv_lanes_avx512.h"
#elif ISA == ISA_AVX2
#include "kv_lanes_avx2.h"
#elif ISA == ISA_NEON
#include "kv_lanes_neon.h"
#endif

// Returns the bits that a plane of K holds of dimensions 4q to 4q+3 of a bundle, for positions
// LANES*h + [0, LANES).
SIMD lanes_i k_plane(const int width, const uint8_t *p, const int q, const int h) {
    return l_field(l_load(p + q * width / 8 * 64 + 4 * LANES * h), q * width % 8, width);
}

// Returns the codes of dimensions 4q to 4q+3 of the bundle of K at p. bits, q and h must be
// constants after inlining.
SIMD lanes_i k_quad(const int bits, const uint8_t *p, const int q, const int h) {
    switch (bits) {
    case 3: return l_join(k_plane(2, p, q, h), k_plane(1, p + 64 * 2, q, h), 2);
    case 5: return l_join(k_plane(4, p, q, h), k_plane(1, p + 64 * 4, q, h), 4);
    case 6: return l_join(k_plane(4, p, q, h), k_plane(2, p + 64 * 4, q, h), 4);
    }
    return k_plane(bits, p, q, h);
}

// Returns the codes of dimensions 16v + LANES*h + [0, LANES) of the bundle of V at p, for its four
// positions.
SIMD lanes_i v_quad(const int bits, const uint8_t *p, const int v, const int h) {
    switch (bits) {
    case 3: return l_join(v_plane(2, p, v, h), v_plane(1, p + 16 * 2, v, h), 2);
    case 5: return l_join(v_plane(4, p, v, h), v_plane(1, p + 16 * 4, v, h), 4);
    case 6: return l_join(v_plane(4, p, v, h), v_plane(2, p + 16 * 4, v, h), 4);
    }
    return v_plane(bits, p, v, h);
}

// Calls call(bits) with bits as a constant.
#undef EACH_BITS
#define EACH_BITS(bits, call) \
    switch (bits) { \
    case 2: call(2); break; \
    case 3: call(3); break; \
    case 4: call(4); break; \
    case 5: call(5); break; \
    case 6: call(6); break; \
    default: call(8); \
    }
