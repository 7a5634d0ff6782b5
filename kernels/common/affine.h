// MLX affine weights: a row is one little-endian LSB-first stream of 2, 3, 4, 5, 6 or 8-bit codes,
// and each group of 32, 64 or 128 elements has a scale and a bias: element = code*scale + bias.
// Included by a kernel's ISA half (so no include guard), after simd.h.
//
// The file of each instruction set (codes_avx512.h, codes_avx2.h, codes_neon.h) defines these
// primitives. `bits` must be a constant where they are inlined into a loop. No load touches memory
// outside its codes, since rows are in mapped files.
//
// codes64                64 codes in order, a byte each
// c_load(p, bits)        unpacks 64 codes
// c_store(p, codes)      stores 64 bytes
// c_float(codes, i)      codes [16i, 16i+16) as floats
// v_load_param(row, dtype, at, n)
//                        elements [at, at+16) of a row of n scales, biases or plain weights of
//                        dtype; those from n on are zero

#define codes64 KERNEL(codes64)
#define c_load KERNEL(c_load)
#define c_load_half KERNEL(c_load_half)
#define c_store KERNEL(c_store)
#define c_float KERNEL(c_float)
#define v_load_param KERNEL(v_load_param)
#define affine_row KERNEL(affine_row)
#define affine_row_bits KERNEL(affine_row_bits)

#ifndef AFFINE_TABLES
#define AFFINE_TABLES
// Numbers of headroom/kernels.DType.
#define DTYPE_F32 0
#define DTYPE_F16 1
#define DTYPE_BF16 2
#endif

// Without a byte permute, sixteen codes (2*bits bytes) are unpacked at a time: a shuffle moves the
// two bytes that hold a code into its 16-bit lane, a multiplication shifts the code's highest bit
// to the top, and one shift moves it down again. A shuffle reads sixteen bytes, which must not pass
// the end of the 64 codes. Shuffle i therefore reads from WINDOW(i, bits), which for the last
// shuffles lies before their first code.
#define WINDOW(i, bits) (2 * (bits) * (i) < 8 * (bits) - 16 ? 2 * (bits) * (i) : 8 * (bits) - 16)
#define AT(i, j, bits) \
    (char)(2 * (bits) * (i) - WINDOW(i, bits) + (j) * (bits) / 8), \
        (char)(2 * (bits) * (i) - WINDOW(i, bits) + (j) * (bits) / 8 + 1)
#define SHUFFLE(i, j, bits) \
    AT(i, (j), bits), AT(i, (j) + 1, bits), AT(i, (j) + 2, bits), AT(i, (j) + 3, bits), \
        AT(i, (j) + 4, bits), AT(i, (j) + 5, bits), AT(i, (j) + 6, bits), AT(i, (j) + 7, bits)
#define TOP(j, bits) (short)(1 << (16 - (bits) - (j) * (bits) % 8))
#define TOPS(bits) \
    TOP(0, bits), TOP(1, bits), TOP(2, bits), TOP(3, bits), TOP(4, bits), TOP(5, bits), \
        TOP(6, bits), TOP(7, bits)

#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "codes_avx512.h"
#elif ISA == ISA_AVX2
#include "codes_avx2.h"
#elif ISA == ISA_NEON
#include "codes_neon.h"
#endif
#undef PICK
#undef WINDOW
#undef AT
#undef SHUFFLE
#undef TOP
#undef TOPS

// Loads the first 32 codes of 64; the others are zero. This is the end of a row whose width is an
// odd number of groups of 32.
SIMD codes64 c_load_half(const uint8_t *p, int bits) {
    uint8_t t[64] = {0};
    memcpy(t, p, (size_t)(4 * bits));
    return c_load(t, bits);
}

// Dequantizes a row of k elements to out, which has room for k rounded up to 16. With bits 0 the
// elements are plain, of dtype.
SIMD void affine_row_bits(const uint8_t *codes, const void *scales, const void *biases, int dtype,
                          int bits, int group, int64_t k, float *out) {
    float s[16], b[16];
    int per = group / 16, groups = (int)(k / group);
    for (int64_t at = 0; at < k; at += 64) {
        int64_t first = at / group;
        if (at % (16 * group) == 0) {
            v_store(s, v_load_param(scales, dtype, first, groups));
            v_store(b, v_load_param(biases, dtype, first, groups));
        }
        codes64 c = k - at >= 64 ? c_load(codes + at / 8 * bits, bits)
                                 : c_load_half(codes + at / 8 * bits, bits);
        int vectors = k - at >= 64 ? 4 : 2;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            if (i == vectors) break;
            int g = (int)(at / 16 + i) / per % 16;
            v_store(out + at + 16 * i, v_fma(c_float(c, i), v_set1(s[g]), v_set1(b[g])));
        }
    }
}
static __attribute__((unused)) void affine_row(const uint8_t *codes, const void *scales,
                                               const void *biases, int dtype, int bits, int group,
                                               int64_t k, float *out) {
    switch (bits) {
    case 0:
        for (int64_t at = 0; at < k; at += 16) v_store(out + at, v_load_param(codes, dtype, at, k));
        break;
    case 2: affine_row_bits(codes, scales, biases, dtype, 2, group, k, out); break;
    case 3: affine_row_bits(codes, scales, biases, dtype, 3, group, k, out); break;
    case 4: affine_row_bits(codes, scales, biases, dtype, 4, group, k, out); break;
    case 5: affine_row_bits(codes, scales, biases, dtype, 5, group, k, out); break;
    case 6: affine_row_bits(codes, scales, biases, dtype, 6, group, k, out); break;
    case 8: affine_row_bits(codes, scales, biases, dtype, 8, group, k, out); break;
    }
}
