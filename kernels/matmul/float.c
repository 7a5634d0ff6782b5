// Multiplies weights of any format with float32 activations. Lane i of sixteen adds up elements i,
// i+16, ... of a row by fused multiply-adds, and an output is the sum of the lanes. A quantized
// element first becomes a float32: by one fma, code*scale + bias, or in other modes by products,
// which are exact for MXFP4 and MXFP8.
#ifdef ISA
#include "../common/affine.h"
#include "../common/mxfp4.h"
#include "../common/mxfp8.h"
#include "../common/nvfp4.h"
#include "../common/fp8.h"
#include "policy.h"

#define NR FLOAT_WEIGHT_ROWS
#define MR FLOAT_INPUT_ROWS

// Packed weights are prefetched this many bytes ahead, a line per chunk. Rows are short and
// are read in three streams, a pattern that hardware prefetchers follow badly. Prefetching past the
// end of the matrix is harmless.
#undef AHEAD
#define AHEAD 4096

// The operands of a tile: NR rows of the weight and up to MR rows of activations.
typedef struct {
    const uint8_t *w[NR], *scales[NR], *biases[NR];
    const float *x[MR];
    float *out[MR];
    int64_t k;
    int group, dtype, n; // number of different rows of the weight; the others repeat the last
} KERNEL(operands);

#define EACH_N _Pragma("GCC unroll 4") for (int n = 0; n < NR; n++)
#define EACH_M _Pragma("GCC unroll 4") for (int m = 0; m < mr; m++)

SIMD void KERNEL(store_sums)(const KERNEL(operands) * t, int mr, f32x16 (*acc)[MR]) {
    EACH_N
    EACH_M
    if (n < t->n) t->out[m][n] = v_sum(acc[n][m]);
}

// Loads plain elements [at, at + 16).
SIMD f32x16 KERNEL(load_plain)(const uint8_t *row, int64_t at, int dtype) {
    return dtype == DTYPE_F32    ? v_load((const float *)row + at)
           : dtype == DTYPE_BF16 ? v_load_bf16((const uint16_t *)row + at)
                                 : v_load_f16((const uint16_t *)row + at);
}

SIMD void KERNEL(plain_tile)(const KERNEL(operands) * t, int mr, int dtype) {
    f32x16 acc[NR][MR], w[NR];
    EACH_N
    EACH_M
    acc[n][m] = v_zero();
    int64_t at = 0;
    for (; at + 16 <= t->k; at += 16) {
        // A float32 weight is usually an unpacked tile, in the cache.
        if (dtype != DTYPE_F32) EACH_N
        __builtin_prefetch(t->w[n] + 2 * at + AHEAD);
        EACH_N
        w[n] = KERNEL(load_plain)(t->w[n], at, dtype);
        EACH_M
        {
            f32x16 x = v_load(t->x[m] + at);
            EACH_N
            acc[n][m] = v_fma(w[n], x, acc[n][m]);
        }
    }
    if (at < t->k) {
        EACH_N
        w[n] = v_load_param(t->w[n], dtype, at, t->k);
        EACH_M
        {
            f32x16 x = v_load_n(t->x[m] + at, (int)(t->k - at));
            EACH_N
            acc[n][m] = v_fma(w[n], x, acc[n][m]);
        }
    }
    KERNEL(store_sums)(t, mr, acc);
}

// Adds to acc vectors [0, vectors) of the chunk of 64 elements at `at`. A group is 1 << shift
// vectors; scale and bias are those of the sixteen groups around.
SIMD void KERNEL(add_vectors)(const KERNEL(operands) * t, f32x16 (*acc)[MR], const codes64 *c,
                              float (*scale)[16], float (*bias)[16], int64_t at, int shift, int mr,
                              int mode, int vectors) {
#pragma GCC unroll 4
    for (int i = 0; i < vectors; i++) {
        int g = ((int)(at / 16) + i) >> shift & 15;
        f32x16 w[NR];
        EACH_N
        w[n] = mode != MODE_AFFINE
                   ? v_mul(c_e2m1_float(c_e2m1(c[n]), i), v_set1(scale[n][g]))
                   : v_fma(c_float(c[n], i), v_set1(scale[n][g]), v_set1(bias[n][g]));
        EACH_M
        {
            f32x16 x = v_load(t->x[m] + at + 16 * i);
            EACH_N
            acc[n][m] = v_fma(w[n], x, acc[n][m]);
        }
    }
}

SIMD void KERNEL(packed_tile)(const KERNEL(operands) * t, int mr, int mode, int bits) {
    f32x16 acc[NR][MR];
    EACH_N
    EACH_M
    acc[n][m] = v_zero();
    float scale[NR][16], bias[NR][16]; // of sixteen groups
    codes64 c[NR];
    int shift = t->group == 16 ? 0 : t->group == 32 ? 1 : t->group == 64 ? 2 : 3;
    int64_t groups = t->k / t->group;
    for (int64_t at = 0; at < t->k;) {
        if (mode == MODE_MXFP4) {
            EACH_N
            v_store(scale[n], v_load_e8m0(t->scales[n], at / 32, groups));
        } else if (mode == MODE_NVFP4) {
            EACH_N
            v_store(scale[n], v_load_e4m3_scales(t->scales[n], at / 16, groups,
                                                 *(const float *)t->biases[n]));
        } else EACH_N
        {
            v_store(scale[n], v_load_param(t->scales[n], t->dtype, at / t->group, groups));
            v_store(bias[n], v_load_param(t->biases[n], t->dtype, at / t->group, groups));
        }
        int64_t end = t->k < at + 16 * t->group ? t->k : at + 16 * t->group;
        for (; at + 64 <= end; at += 64) {
            EACH_N
            __builtin_prefetch(t->w[n] + at / 8 * bits + AHEAD);
            EACH_N
            c[n] = c_load(t->w[n] + at / 8 * bits, bits);
            KERNEL(add_vectors)(t, acc, c, scale, bias, at, shift, mr, mode, 4);
        }
        if (at < end) { // an odd number of groups of 32
            EACH_N
            c[n] = c_load_half(t->w[n] + at / 8 * bits, bits);
            KERNEL(add_vectors)(t, acc, c, scale, bias, at, shift, mr, mode, 2);
            at = end;
        }
    }
    KERNEL(store_sums)(t, mr, acc);
}

SIMD void KERNEL(mxfp8_tile)(const KERNEL(operands) * t, int mr) {
    f32x16 acc[NR][MR], w[NR];
    EACH_N
    EACH_M
    acc[n][m] = v_zero();
    float scale[NR][16]; // of sixteen groups
    for (int64_t at = 0; at < t->k; at += 32) {
        int g = (int)(at / 32) % 16;
        if (g == 0) EACH_N
        v_store(scale[n], v_load_e8m0(t->scales[n], at / 32, t->k / 32));
        if (g % 2 == 0) EACH_N // a line has two groups
        __builtin_prefetch(t->w[n] + at + AHEAD);
#pragma GCC unroll 2
        for (int i = 0; i < 32; i += 16) {
            EACH_N
            w[n] = v_mul(v_load_e4m3(t->w[n] + at + i), v_set1(scale[n][g]));
            EACH_M
            {
                f32x16 x = v_load(t->x[m] + at + i);
                EACH_N
                acc[n][m] = v_fma(w[n], x, acc[n][m]);
            }
        }
    }
    KERNEL(store_sums)(t, mr, acc);
}

SIMD void KERNEL(fp8_tile)(const KERNEL(operands) * t, int mr) {
    f32x16 acc[NR][MR], w[NR], scale[NR];
    EACH_N
    EACH_M
    acc[n][m] = v_zero();
    int64_t g = 0;
    for (int64_t at = 0; at < t->k; g++) {
        EACH_N // v_load_e4m3 doubles values
        scale[n] = v_set1(((const float *)t->scales[n])[g] * 0.5f);
        const int64_t end = t->k - at < t->group ? t->k : at + t->group;
        for (; at < end; at += 32) {
            if (at % 64 == 0) EACH_N
            __builtin_prefetch(t->w[n] + at + AHEAD);
#pragma GCC unroll 2
            for (int i = 0; i < 32; i += 16) {
                EACH_N
                w[n] = v_mul(v_load_e4m3(t->w[n] + at + i), scale[n]);
                EACH_M
                {
                    f32x16 x = v_load(t->x[m] + at + i);
                    EACH_N
                    acc[n][m] = v_fma(w[n], x, acc[n][m]);
                }
            }
        }
    }
    KERNEL(store_sums)(t, mr, acc);
}

typedef void KERNEL(tile_function)(const KERNEL(operands) * t);

#define PLAIN(mr, dtype) \
    static void KERNEL(plain_##mr##_##dtype)(const KERNEL(operands) * t) { \
        KERNEL(plain_tile)(t, mr, dtype); \
    }
#define AFFINE(mr, bits) \
    static void KERNEL(affine_##mr##_##bits)(const KERNEL(operands) * t) { \
        KERNEL(packed_tile)(t, mr, MODE_AFFINE, bits); \
    }
#define MXFP4(mr, bits) \
    static void KERNEL(mxfp4_##mr##_##bits)(const KERNEL(operands) * t) { \
        KERNEL(packed_tile)(t, mr, MODE_MXFP4, bits); \
    }
#define MXFP8(mr, bits) \
    static void KERNEL(mxfp8_##mr##_##bits)(const KERNEL(operands) * t) { \
        KERNEL(mxfp8_tile)(t, mr); \
    }
#define NVFP4(mr, bits) \
    static void KERNEL(nvfp4_##mr##_##bits)(const KERNEL(operands) * t) { \
        KERNEL(packed_tile)(t, mr, MODE_NVFP4, bits); \
    }
#define FP8(mr, bits) \
    static void KERNEL(fp8_##mr##_##bits)(const KERNEL(operands) * t) { KERNEL(fp8_tile)(t, mr); }
#define TILES(mr) \
    PLAIN(mr, 0) \
    PLAIN(mr, 1) \
    PLAIN(mr, 2) AFFINE(mr, 2) AFFINE(mr, 3) AFFINE(mr, 4) AFFINE(mr, 5) AFFINE(mr, 6) \
        AFFINE(mr, 8) MXFP4(mr, 4) MXFP8(mr, 8) NVFP4(mr, 4) FP8(mr, 8)
TILES(1)
TILES(2)
#if MR == 4
TILES(4)
#define TABLE(prefix, id) \
    {KERNEL(prefix##_1_##id), KERNEL(prefix##_2_##id), KERNEL(prefix##_4_##id)}
#else
#define TABLE(prefix, id) {KERNEL(prefix##_1_##id), KERNEL(prefix##_2_##id)}
#endif

// Multiplies rows [0, n) of the weight, or of an unpacked tile of it, with every row of the input,
// MR at a time.
static void KERNEL(float_tiles)(const matmul_weight *w, int64_t n, const float *x,
                                ptrdiff_t x_stride, const matmul_rows *r, int64_t first_column) {
    static KERNEL(tile_function) *const plain[3][3] = {TABLE(plain, 0), TABLE(plain, 1),
                                                       TABLE(plain, 2)};
    static KERNEL(tile_function) *const affine[9][3] = {
        [2] = TABLE(affine, 2), [3] = TABLE(affine, 3), [4] = TABLE(affine, 4),
        [5] = TABLE(affine, 5), [6] = TABLE(affine, 6), [8] = TABLE(affine, 8)};
    static KERNEL(tile_function) *const modes[][3] = {[MODE_MXFP4] = TABLE(mxfp4, 4),
                                                      [MODE_MXFP8] = TABLE(mxfp8, 8),
                                                      [MODE_NVFP4] = TABLE(nvfp4, 4),
                                                      [MODE_FP8] = TABLE(fp8, 8)};
    KERNEL(tile_function) *const *tiles = w->bits == 0              ? plain[w->dtype]
                                          : w->mode != MODE_AFFINE ? modes[w->mode]
                                                                   : affine[w->bits];
    KERNEL(operands) t = {.k = w->k, .group = w->group, .dtype = w->dtype};
    for (int64_t m = 0; m < r->count; m += MR) {
        int rows = r->count - m < MR ? (int)(r->count - m) : MR;
        for (int i = 0; i < MR; i++) { // three rows run as four, with the last one twice
            int64_t row = matmul_out_row(r, m + (i < rows ? i : rows - 1));
            t.x[i] = x + row / r->per_input * x_stride;
            t.out[i] = r->out + row * r->out_stride + first_column;
        }
        for (int64_t j = 0; j < n; j += NR) {
            t.n = n - j < NR ? (int)(n - j) : NR;
            for (int i = 0; i < NR; i++) {
                int64_t row = i < t.n ? j + i : j + t.n - 1;
                t.w[i] = w->data + row * w->data_stride;
                t.scales[i] = w->scales + row * w->scales_stride;
                t.biases[i] = w->biases ? w->biases + row * w->biases_stride : NULL;
            }
            tiles[rows == 1 ? 0 : rows == 2 ? 1 : 2](&t);
            for (int i = 0; i < MR; i++) t.out[i] += t.n;
        }
    }
}

// Dequantizes the first row of the weight to out.
static void KERNEL(unpack_row)(const matmul_weight *w, float *out) {
    switch (w->mode) {
    case MODE_MXFP4: mxfp4_row(w->data, w->scales, w->k, out); break;
    case MODE_MXFP8: mxfp8_row(w->data, w->scales, w->k, out); break;
    case MODE_NVFP4:
        nvfp4_row(w->data, w->scales, *(const float *)w->biases, w->k, out);
        break;
    case MODE_FP8: fp8_row(w->data, (const float *)w->scales, w->group, w->k, out); break;
    default:
        affine_row(w->data, w->scales, w->biases, w->dtype, w->bits, w->group, w->k, out);
    }
}

static void KERNEL(float_rows)(const matmul_weight *w, int64_t from, int64_t to, const float *x,
                               ptrdiff_t x_stride, const matmul_rows *r, const matmul_tile *tile) {
    matmul_weight part = matmul_weight_from(w, from);
    if (r->count <= MR) { // one tile: unpacking it first saves nothing
        KERNEL(float_tiles)(&part, to - from, x, x_stride, r, from);
        return;
    }
    int64_t padded = (w->k + 15) & ~(int64_t)15;
    for (int64_t n = from; n < to; n += tile->rows) {
        int64_t rows = to - n < tile->rows ? to - n : tile->rows;
        float *unpacked = tile->memory;
        for (int64_t i = 0; i < rows; i++) {
            part = matmul_weight_from(w, n + i);
            KERNEL(unpack_row)(&part, unpacked + i * padded);
        }
        part.data = (const uint8_t *)unpacked;
        part.data_stride = 4 * padded;
        part.bits = 0;
        part.dtype = DTYPE_F32;
        KERNEL(float_tiles)(&part, rows, x, x_stride, r, n);
    }
}

#undef NR
#undef MR
#undef EACH_N
#undef EACH_M
#undef PLAIN
#undef AFFINE
#undef MXFP4
#undef MXFP8
#undef NVFP4
#undef FP8
#undef E2M1_OFFSET
#undef TILES
#undef TABLE

#else

#include "matmul.h"
#define KERNEL_USES_VNNI
#define KERNEL_SOURCE "float.c"
#include "../common/foreach_isa.h"

void matmul_float(int isa, const matmul_weight *w, int64_t from, int64_t to, const float *x,
                  ptrdiff_t x_stride, const matmul_rows *r, const matmul_tile *tile) {
    DISPATCH(isa, float_rows, (w, from, to, x, x_stride, r, tile));
}

#endif
