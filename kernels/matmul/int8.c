// Quantized weights times rounded activations. A chunk is 64 elements of a row: its sixteen lanes are the integer sums of four
// products each, exact on every instruction set, and go to sixteen float32 accumulators by
//
//     acc = fma(float(dot), weight scale * activation scale, acc)      chunk after chunk
//     acc = fma(bias, sum of the rounded activations of its group, acc)      sixteen groups after sixteen groups
//
// and out = the sum of the lanes. That is all the arithmetic there is for an element, whatever the tile around it. In groups of 32
// lanes 0-7 have another scale than lanes 8-15.
#ifdef ISA
#include "affine.h"

// A tile is NR rows of the weight times up to MR rows of activations, all accumulators in registers.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
#define NR 4
#define MR 4
#else
#define NR 2
#define MR 2
#endif

// The sums of products of four neighbours, as floats. wide: codes use all eight bits.
#if ISA == ISA_VNNI
SIMD f32x16 KERNEL(dot)(codes64 c, codes64 q, int wide) {
    (void)wide;
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), c, q));
}
#elif ISA == ISA_AVX512
// maddubs adds two products in 16 bits: safe for codes up to 128, so the top bit of wide ones goes apart.
SIMD __m512i KERNEL(dot7)(__m512i c, __m512i q) { return _mm512_madd_epi16(_mm512_maddubs_epi16(c, q), _mm512_set1_epi16(1)); }
SIMD f32x16 KERNEL(dot)(codes64 c, codes64 q, int wide) {
    if (!wide) return _mm512_cvtepi32_ps(KERNEL(dot7)(c, q));
    __m512i top = _mm512_set1_epi8((char)128);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(KERNEL(dot7)(_mm512_andnot_si512(top, c), q), KERNEL(dot7)(_mm512_and_si512(top, c), q)));
}
#elif ISA == ISA_AVX2
SIMD __m256i KERNEL(dot7)(__m256i c, __m256i q) { return _mm256_madd_epi16(_mm256_maddubs_epi16(c, q), _mm256_set1_epi16(1)); }
SIMD __m256 KERNEL(dot_half)(__m256i c, __m256i q, int wide) {
    if (!wide) return _mm256_cvtepi32_ps(KERNEL(dot7)(c, q));
    __m256i top = _mm256_set1_epi8((char)128);
    return _mm256_cvtepi32_ps(_mm256_add_epi32(KERNEL(dot7)(_mm256_andnot_si256(top, c), q), KERNEL(dot7)(_mm256_and_si256(top, c), q)));
}
SIMD f32x16 KERNEL(dot)(codes64 c, codes64 q, int wide) { return (f32x16){KERNEL(dot_half)(c.a, q.a, wide), KERNEL(dot_half)(c.b, q.b, wide)}; }
#elif ISA == ISA_NEON
// The dot product is of signed bytes: the top bit of wide codes goes apart.
SIMD float32x4_t KERNEL(dot_quarter)(uint8x16_t c, uint8x16_t q, int wide) {
    int8x16_t x = vreinterpretq_s8_u8(q);
    int32x4_t zero = vdupq_n_s32(0);
    if (!wide) return vcvtq_f32_s32(vdotq_s32(zero, vreinterpretq_s8_u8(c), x));
    int32x4_t top = vdotq_s32(zero, vreinterpretq_s8_u8(vshrq_n_u8(c, 7)), x);
    return vcvtq_f32_s32(vdotq_s32(vshlq_n_s32(top, 7), vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(127))), x));
}
SIMD f32x16 KERNEL(dot)(codes64 c, codes64 q, int wide) {
    return (f32x16){{KERNEL(dot_quarter)(c.v[0], q.v[0], wide), KERNEL(dot_quarter)(c.v[1], q.v[1], wide),
                     KERNEL(dot_quarter)(c.v[2], q.v[2], wide), KERNEL(dot_quarter)(c.v[3], q.v[3], wide)}};
}
#endif

// p[0] in lanes 0-7, p[1] in lanes 8-15.
#if ISA == ISA_AVX512 || ISA == ISA_VNNI
SIMD f32x16 KERNEL(v_set2)(const float *p) {
    double both;
    memcpy(&both, p, 8);
    return _mm512_permutevar_ps(_mm512_castpd_ps(_mm512_set1_pd(both)), _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
}
#elif ISA == ISA_AVX2
SIMD f32x16 KERNEL(v_set2)(const float *p) { return (f32x16){_mm256_set1_ps(p[0]), _mm256_set1_ps(p[1])}; }
#else
SIMD f32x16 KERNEL(v_set2)(const float *p) {
    float32x4_t a = vdupq_n_f32(p[0]), b = vdupq_n_f32(p[1]);
    return (f32x16){{a, a, b, b}};
}
#endif

// Where a tile's operands lie. Weight rows are packed, or unpacked to bytes with float32 scales.
typedef struct {
    const uint8_t *codes[NR];
    const uint8_t *scales[NR], *biases[NR];
    const int8_t *q[MR];
    const float *runs[MR]; // input.go
    float *out[MR];
    int64_t k;
    int group, dtype, n; // n rows of the weight are wanted; the others repeat the last
} KERNEL(operands);

// The products of the scales of a block of chunks: 16 scales, that is 16 chunks or, in groups of 32, 8. Element j of
// product[n][m] belongs to chunk first+j or, in groups of 32, to half a chunk.
SIMD void KERNEL(scale_products)(const KERNEL(operands) *t, int mr, int64_t first, float (*product)[MR][16]) {
    int64_t padded = ((t->k + 63) / 64 + 15) & ~(int64_t)15, groups = t->k / t->group;
    for (int n = 0; n < NR; n++) {
        f32x16 w;
        if (t->group == 128) {
            float half[16], twice[16];
            v_store(half, v_load_param(t->scales[n], t->dtype, first / 2, groups));
            for (int i = 0; i < 16; i++) twice[i] = half[i / 2];
            w = v_load(twice);
        } else {
            w = v_load_param(t->scales[n], t->dtype, t->group == 32 ? 2 * first : first, groups);
        }
        __builtin_prefetch(t->scales[n] + 4 * first + AHEAD / 8);
        __builtin_prefetch(t->biases[n] + 4 * first + AHEAD / 8);
        for (int m = 0; m < mr; m++)
            v_store(product[n][m], v_mul(w, v_load(t->group == 32 ? t->runs[m] + padded + 2 * first : t->runs[m] + first)));
    }
}

// Adds chunk `at` of the tile; `half` says that only its first 32 elements exist.
SIMD void KERNEL(add_chunk)(const KERNEL(operands) *t, f32x16 (*acc)[MR], float (*product)[MR][16], int64_t at, int in_block, int half,
                            int mr, int bits, int wide, int per_chunk) {
    codes64 w[NR];
#pragma GCC unroll 4
    for (int n = 0; n < NR; n++) __builtin_prefetch(t->codes[n] + at * 8 * bits + AHEAD);
#pragma GCC unroll 4
    for (int n = 0; n < NR; n++) w[n] = half ? c_load_half(t->codes[n] + at * 8 * bits, bits) : c_load(t->codes[n] + at * 8 * bits, bits);
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        codes64 q = c_load((const uint8_t *)t->q[m] + at * 64, 8);
#pragma GCC unroll 4
        for (int n = 0; n < NR; n++) {
            f32x16 scale = per_chunk == 2 ? KERNEL(v_set2)(product[n][m] + 2 * in_block) : v_set1(product[n][m][in_block]);
            acc[n][m] = v_fma(KERNEL(dot)(w[n], q, wide), scale, acc[n][m]);
        }
    }
}

SIMD void KERNEL(int8_tile)(const KERNEL(operands) *t, int mr, int bits, int wide, int per_chunk) {
    f32x16 acc[NR][MR];
#pragma GCC unroll 4
    for (int n = 0; n < NR; n++)
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) acc[n][m] = v_zero();
    float product[NR][MR][16];
    int64_t whole = t->k / 64;
    for (int64_t first = 0; first * 64 < t->k; first += 16 / per_chunk) {
        KERNEL(scale_products)(t, mr, first, product);
        int n = whole - first < 16 / per_chunk ? (int)(whole - first) : 16 / per_chunk;
        for (int i = 0; i < n; i++) KERNEL(add_chunk)(t, acc, product, first + i, i, 0, mr, bits, wide, per_chunk);
        if (per_chunk == 2 && n < 8 && t->k % 64) KERNEL(add_chunk)(t, acc, product, whole, n, 1, mr, bits, wide, per_chunk);
    }
    int64_t padded = ((t->k + 63) / 64 + 15) & ~(int64_t)15, groups = t->k / t->group;
    int64_t sums = padded * (t->group == 32 ? 3 : t->group == 64 ? 5 : 6);
    for (int64_t g = 0; g < groups; g += 16) {
#pragma GCC unroll 4
        for (int n = 0; n < NR; n++) {
            f32x16 b = v_load_param(t->biases[n], t->dtype, g, groups);
#pragma GCC unroll 4
            for (int m = 0; m < mr; m++) acc[n][m] = v_fma(b, v_load(t->runs[m] + sums + g), acc[n][m]);
        }
    }
#pragma GCC unroll 4
    for (int n = 0; n < NR; n++)
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++)
            if (n < t->n) t->out[m][n] = v_sum(acc[n][m]);
}

typedef void KERNEL(tile_function)(const KERNEL(operands) *t);

#define TILE(mr, bits, per_chunk) \
    static void KERNEL(tile_##mr##_##bits##_##per_chunk)(const KERNEL(operands) *t) { KERNEL(int8_tile)(t, mr, bits, bits == 8, per_chunk); }
#define TILES(mr) \
    TILE(mr, 2, 1) TILE(mr, 3, 1) TILE(mr, 4, 1) TILE(mr, 5, 1) TILE(mr, 6, 1) TILE(mr, 8, 1) \
    TILE(mr, 2, 2) TILE(mr, 3, 2) TILE(mr, 4, 2) TILE(mr, 5, 2) TILE(mr, 6, 2) TILE(mr, 8, 2) \
    static void KERNEL(bytes_##mr##_1)(const KERNEL(operands) *t) { KERNEL(int8_tile)(t, mr, 8, 0, 1); } /* narrow codes, unpacked */ \
    static void KERNEL(bytes_##mr##_2)(const KERNEL(operands) *t) { KERNEL(int8_tile)(t, mr, 8, 0, 2); }
TILES(1)
TILES(2)
#if MR == 4
TILES(4)
#define EACH(name) {KERNEL(tile_1_##name), KERNEL(tile_2_##name), KERNEL(tile_4_##name)}
#define EACH_BYTES(per_chunk) {KERNEL(bytes_1_##per_chunk), KERNEL(bytes_2_##per_chunk), KERNEL(bytes_4_##per_chunk)}
#else
#define EACH(name) {KERNEL(tile_1_##name), KERNEL(tile_2_##name)}
#define EACH_BYTES(per_chunk) {KERNEL(bytes_1_##per_chunk), KERNEL(bytes_2_##per_chunk)}
#endif

// Rows [0, n) of the weight (or of a tile of it) with every row of the input, MR at a time; `unpacked`: a tile's codes.
static void KERNEL(int8_tiles)(const matmul_weight *w, int unpacked, int64_t n, const int8_t *q, const float *runs, const matmul_rows *r,
                               int64_t first_column) {
    static KERNEL(tile_function) *const packed_tiles[2][9][3] = {
        {[2] = EACH(2_1), [3] = EACH(3_1), [4] = EACH(4_1), [5] = EACH(5_1), [6] = EACH(6_1), [8] = EACH(8_1)},
        {[2] = EACH(2_2), [3] = EACH(3_2), [4] = EACH(4_2), [5] = EACH(5_2), [6] = EACH(6_2), [8] = EACH(8_2)}};
    static KERNEL(tile_function) *const byte_tiles[2][3] = {EACH_BYTES(1), EACH_BYTES(2)};
    int per_chunk = w->group == 32;
    KERNEL(tile_function) *const *tiles = unpacked && w->bits < 8 ? byte_tiles[per_chunk] : packed_tiles[per_chunk][w->bits];
    int64_t chunks = (w->k + 63) / 64, run = 7 * ((chunks + 15) & ~(int64_t)15);
    KERNEL(operands) t = {.k = w->k, .group = w->group, .dtype = w->dtype};
    for (int64_t m = 0; m < r->count; m += MR) {
        int rows = r->count - m < MR ? (int)(r->count - m) : MR;
        for (int i = 0; i < MR; i++) { // three rows run as four, the last one twice
            int64_t row = matmul_out_row(r, m + (i < rows ? i : rows - 1)), from = row / r->per_input;
            t.q[i] = q + from * chunks * 64;
            t.runs[i] = runs + from * run;
            t.out[i] = r->out + row * r->out_stride + first_column;
        }
        for (int64_t j = 0; j < n; j += NR) {
            t.n = n - j < NR ? (int)(n - j) : NR;
            for (int i = 0; i < NR; i++) {
                int64_t row = i < t.n ? j + i : j + t.n - 1;
                t.codes[i] = w->data + row * w->data_stride;
                t.scales[i] = w->scales + row * w->scales_stride;
                t.biases[i] = w->biases + row * w->biases_stride;
            }
            tiles[rows == 1 ? 0 : rows == 2 ? 1 : 2](&t);
            for (int i = 0; i < MR; i++) t.out[i] += t.n;
        }
    }
}

SIMD void KERNEL(unpack)(const uint8_t *p, int64_t k, int bits, uint8_t *out) {
    int64_t at = 0;
    for (; at + 64 <= k; at += 64) {
        __builtin_prefetch(p + at / 8 * bits + AHEAD);
        c_store(out + at, c_load(p + at / 8 * bits, bits));
    }
    if (at < k) c_store(out + at, c_load_half(p + at / 8 * bits, bits));
}

static void KERNEL(int8_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const matmul_rows *r,
                              const matmul_tile *tile) {
    matmul_weight part = matmul_weight_from(w, from);
    if (r->count <= MR) { // one tile: unpacking apart saves nothing
        KERNEL(int8_tiles)(&part, 0, to - from, q, runs, r, from);
        return;
    }
    int64_t groups = w->k / w->group, padded_groups = (groups + 15) & ~(int64_t)15, bytes = (w->k + 63) & ~(int64_t)63;
    for (int64_t n = from; n < to; n += tile->rows) {
        int64_t rows = to - n < tile->rows ? to - n : tile->rows;
        uint8_t *codes = tile->memory;
        part = matmul_weight_from(w, n);
        float *scales = (float *)(codes + tile->rows * bytes), *biases = scales + tile->rows * padded_groups;
        for (int64_t i = 0; i < rows; i++) {
            const uint8_t *p = part.data + i * w->data_stride;
            uint8_t *c = codes + i * bytes;
            switch (w->bits) {
            case 2: KERNEL(unpack)(p, w->k, 2, c); break;
            case 3: KERNEL(unpack)(p, w->k, 3, c); break;
            case 4: KERNEL(unpack)(p, w->k, 4, c); break;
            case 5: KERNEL(unpack)(p, w->k, 5, c); break;
            case 6: KERNEL(unpack)(p, w->k, 6, c); break;
            case 8: KERNEL(unpack)(p, w->k, 8, c); break;
            }
            for (int64_t g = 0; g < padded_groups; g += 16) {
                v_store(scales + i * padded_groups + g, v_load_param(part.scales + i * w->scales_stride, w->dtype, g, groups));
                v_store(biases + i * padded_groups + g, v_load_param(part.biases + i * w->biases_stride, w->dtype, g, groups));
            }
        }
        part.data = codes;
        part.data_stride = bytes;
        part.scales = (const uint8_t *)scales;
        part.biases = (const uint8_t *)biases;
        part.scales_stride = part.biases_stride = 4 * padded_groups;
        part.dtype = DTYPE_F32;
        KERNEL(int8_tiles)(&part, 1, rows, q, runs, r, n);
    }
}

#undef NR
#undef MR
#undef TILE
#undef TILES
#undef EACH
#undef EACH_BYTES

#else

#include "matmul.h"
#define KERNEL_USES_VNNI
#define KERNEL_SOURCE "int8.c"
#include "foreach_isa.h"

void headroom_matmul_int8(int isa, const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const matmul_rows *r,
                          const matmul_tile *tile) {
    DISPATCH(isa, int8_rows, (w, from, to, q, runs, r, tile));
}

#endif
