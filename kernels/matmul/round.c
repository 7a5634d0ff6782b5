// Rounds rows of activations to 8 bits. Each 64 elements share a scale, amax/127; input.go
// describes the layout of the result. Rounding is to nearest, ties to even. A chunk whose scale is
// not a normal number is zero. An infinite element or a NaN makes the scale NaN, and with it every
// product.
//
// Sixteen chunks are rounded together: reductions are of sixteen vectors at once (trees.h), scales
// are a vector, and elements are divided by them with v_quotient (simd.h), which has the bits of a
// division.
#include "matmul.h"
#ifdef ISA
#include "policy.h"
#include "../common/trees.h"

#define BATCH 16              // chunks
#define LEAST_SCALE 0x1p-126f // smaller scales round to zeros

// Each of these files defines store_codes(q, split, v). It stores 64 codes from the low bits of v
// (V_ROUNDER): in order at q, and separated into even and odd elements at split. split belongs to
// the first of SPLIT_CHUNKS neighbouring chunks, which store all their even codes before their odd
// ones.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#include "round_avx512.h"
#elif ISA == ISA_AVX2
#include "round_avx2.h"
#else
#include "round_neon.h"
#endif

// Loads a chunk. x points to its first element, and k elements of the row are left.
SIMD void KERNEL(load_chunk)(const float *x, int64_t k, f32x16 *v) {
    if (k >= 64) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) v[j] = v_load(x + 16 * j);
        return;
    }
    float last[64] = {0};
    memcpy(last, x, (size_t)k * 4);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) v[j] = v_load(last + 16 * j);
}

// Returns the scales of n chunks, then zeros. x points to the first chunk, and k elements of the
// row are left.
SIMD f32x16 KERNEL(scales_of)(const float *x, int64_t k, int n) {
    f32x16 most[BATCH], odd[BATCH]; // odd: 0 * x, so 0 or NaN
    for (int i = 0; i < n; i++, x += 64, k -= 64) {
        f32x16 v[4];
        KERNEL(load_chunk)(x, k, v);
        most[i] = v_max(v_max(v_abs(v[0]), v_abs(v[1])), v_max(v_abs(v[2]), v_abs(v[3])));
        odd[i] = v_fma(v[0], v_zero(),
                       v_fma(v[1], v_zero(), v_fma(v[2], v_zero(), v_mul(v[3], v_zero()))));
    }
    for (int i = n; i < BATCH; i++) most[i] = odd[i] = v_zero();
    return v_add(v_div(v_hmaxes16(most), v_set1(127.0f)), v_sums16(odd));
}

// Sets the low bits of code (V_ROUNDER) to a chunk's codes with this scale.
SIMD void KERNEL(round_chunk)(const f32x16 *v, float scale, float inverse, f32x16 *code) {
    const f32x16 s = v_set1(scale), y = v_set1(inverse), rounder = v_set1(V_ROUNDER);
    if (scale >= V_LEAST_QUOTIENT) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) code[j] = v_add(v_quotient(v[j], s, y), rounder);
        return;
    }
    for (int j = 0; j < 4; j++)
        code[j] = scale >= LEAST_SCALE ? v_add(v_div(v[j], s), rounder) : rounder;
}

// Rounds n chunks, up to sixteen. Stores codes at q and split, their scales, and the sums of codes
// over the first and second halves of each chunk. The sums are integers, so exact in any order.
SIMD void KERNEL(round_batch)(const float *x, int64_t k, int n, int8_t *q, int8_t *split,
                              float *scale, float *first, float *second) {
    f32x16 sums[2][BATCH];
    float inverse[BATCH];
    const f32x16 s = KERNEL(scales_of)(x, k, n), rounder = v_set1(V_ROUNDER);
    v_store(scale, s);
    v_store(inverse, v_div(v_set1(1.0f), s));
    for (int i = 0; i < n; i++, x += 64, k -= 64) {
        f32x16 v[4], code[4];
        KERNEL(load_chunk)(x, k, v);
        KERNEL(round_chunk)(v, scale[i], inverse[i], code);
        KERNEL(store_codes)(q + 64 * i,
                            split + 64 * (i - i % SPLIT_CHUNKS) + 32 * (i % SPLIT_CHUNKS), code);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            sums[h][i] = v_add(v_sub(code[2 * h], rounder), v_sub(code[2 * h + 1], rounder));
    }
    for (int i = n; i < BATCH; i++) sums[0][i] = sums[1][i] = v_zero();
    v_store(first, v_sums16(sums[0]));
    v_store(second, v_sums16(sums[1]));
}

static void KERNEL(round_rows)(const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k,
                               int8_t *q, float *params) {
    int64_t chunks = (k + 63) / 64, c = matmul_padded_chunks(k);
    for (int64_t r = 0; r < rows;
         r++, x += x_stride, q += matmul_row_bytes(k), params += MATMUL_PARAMS * c) {
        int8_t *split = q + 64 * c;
        memset(q + 64 * chunks, 0, (size_t)(64 * (c - chunks)));
        memset(split + 64 * chunks, 0, (size_t)(64 * (c - chunks)));
        for (int64_t at = 0; at < c; at += BATCH) {
            float *scale = params + at, *scale32 = params + c + 2 * at,
                  *sums32 = params + 3 * c + 2 * at, *sums64 = params + 5 * c + at,
                  *codes32 = params + 6 * c + 2 * at;
            float first[BATCH], second[BATCH];
            KERNEL(round_batch)(x + 64 * at, k - 64 * at,
                                chunks - at < BATCH ? (int)(chunks - at) : BATCH, q + 64 * at,
                                split + 64 * at, scale, first, second);
            for (int i = 0; i < BATCH; i++) {
                scale32[2 * i] = scale32[2 * i + 1] = scale[i];
                codes32[2 * i] = first[i], codes32[2 * i + 1] = second[i];
                sums32[2 * i] = scale[i] * first[i], sums32[2 * i + 1] = scale[i] * second[i];
                sums64[i] = scale[i] * (first[i] + second[i]);
            }
        }
    }
}

#undef BATCH
#undef LEAST_SCALE

#else

#define KERNEL_SOURCE "round.c"
#include "../common/foreach_isa.h"

void headroom_matmul_round(int isa, const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k,
                           int8_t *q, float *params) {
    DISPATCH(isa, round_rows, (x, x_stride, rows, k, q, params));
}

#endif
