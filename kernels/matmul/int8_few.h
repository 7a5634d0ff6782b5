// Multiplies a weight with few rows of activations. It unpacks one row of the weight at a time, in
// registers, and multiplies it with up to FEW_ROWS rows of activations. A tree of additions that
// also transposes turns the products of sixteen units into sixteen integer sums, in the order of
// the units' scales in memory. Included once per instruction set, after lanes.h.
//
// Codes of 4 bits are not reordered. The low halves of bytes are the even elements, and the high
// halves the odd ones. round.c stores the activations in that order too (SPLIT_CHUNKS). An integer
// sum does not depend on the order of its terms.

#define dots16 KERNEL(dots16)
#define few_tile KERNEL(few_tile)

// MERGE defines a function that merges 2^level vectors of sums. It merges the results of two calls
// of half, the function for half as many.
#define MERGE(name, half, level) \
    SIMD void KERNEL(name)(const block *b, const int i, const int mr, const int mode, \
                           const int bits, const int unit, lanes *out) { \
        lanes second[FEW_ROWS]; \
        KERNEL(half)(b, 2 * i, mr, mode, bits, unit, out); \
        KERNEL(half)(b, 2 * i + 1, mr, mode, bits, unit, second); \
        _Pragma("GCC unroll 4") for (int m = 0; m < mr; m++) out[m] = \
            l_merge(out[m], second[m], level, NARROW(mode, bits)); \
    }
MERGE(leaf2, leaf, 1)
MERGE(leaf4, leaf2, 2)
MERGE(leaf8, leaf4, 3)
MERGE(leaf16, leaf8, 4)
#undef MERGE

// Computes the sums of units [i*LANES, (i+1)*LANES) of the block, in order. If half is not 0, the
// block has 8 units, and the sums after them are 0.
SIMD void dots16(const block *b, const int i, const int mr, const int mode, const int bits,
                 const int unit, const int half, lanes *out) {
    const int leaves = LANES / UNITS(bits, unit);
    if (half && LANES == 16) {
        switch (leaves) {
        case 4: KERNEL(leaf2)(b, i, mr, mode, bits, unit, out); break;
        case 8: KERNEL(leaf4)(b, i, mr, mode, bits, unit, out); break;
        case 16: KERNEL(leaf8)(b, i, mr, mode, bits, unit, out); break;
        }
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++)
            out[m] = l_merge(out[m], l_zero(), leaves == 4 ? 2 : leaves == 8 ? 3 : 4,
                             NARROW(mode, bits));
    } else if (half && i * LANES >= 8) {
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) out[m] = l_zero();
    } else {
        switch (leaves) {
        case 4: KERNEL(leaf4)(b, i, mr, mode, bits, unit, out); break;
        case 8: KERNEL(leaf8)(b, i, mr, mode, bits, unit, out); break;
        case 16: KERNEL(leaf16)(b, i, mr, mode, bits, unit, out); break;
        }
    }
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) out[m] = KERNEL(l_order)(out[m], UNITS(bits, unit));
}

// Returns the scales or biases of units [first, first+16) of a row, and zeros past its last unit.
#define unit_params KERNEL(unit_params)
SIMD f32x16 unit_params(const void *row, int dtype, int group, int64_t k, int64_t first) {
    if (group != 128) {
        // Not k / group: the division would cost as much as four units.
        const int64_t n = group == 32 ? k / 32 : k / 64;
        const uint16_t *p = (const uint16_t *)row + first;
        if (n - first < 16 || dtype == DTYPE_F32) return v_load_param(row, dtype, first, n);
        return dtype == DTYPE_BF16 ? v_load_bf16(p) : v_load_f16(p);
    }
    float half[16], twice[16];
    v_store(half, v_load_param(row, dtype, first / 2, k / 128));
    for (int i = 0; i < 16; i++) twice[i] = half[i / 2];
    return v_load(twice);
}

#undef FEW_AHEAD
#define FEW_AHEAD 2048 // bytes between a load of a stream and its prefetch

// The streams of a row of the weight, how many bytes ahead they are prefetched, and the end of the
// codes that may be read, which is that of the last row.
#define row_at KERNEL(row_at)
typedef struct {
    const uint8_t *codes, *scales, *biases, *end;
    ptrdiff_t codes_ahead, scales_ahead;
} row_at;

// Returns row i. Its prefetches are `rows` rows and FEW_AHEAD bytes ahead.
SIMD row_at KERNEL(few_row)(const matmul_weight *w, int64_t i, int64_t rows, ptrdiff_t scales_ahead,
                            const uint8_t *end, const int mode) {
    return (row_at){w->data + i * w->data_stride, w->scales + i * w->scales_stride,
                    mode == MODE_AFFINE ? w->biases + i * w->biases_stride : NULL, end,
                    FEW_AHEAD + rows * w->data_stride, scales_ahead + rows * w->scales_stride};
}

// Multiplies units [u, u+16) of a row of the weight with mr rows of activations and adds the
// results to acc. Past the end of a row the codes are mostly those of the next one. They do not
// matter, because there either the activations or their scales are 0 (round.c).
#define few_block KERNEL(few_block)
SIMD void few_block(const matmul_weight *w, const row_at *row, int64_t u, const int8_t *const *q,
                    const float *const *params, f32x16 *acc, const int mr, const int mode,
                    const int bits, const int unit) {
    const int64_t units = w->k / unit, c = matmul_padded_chunks(w->k), at = u / 8 * unit * bits;
    const int half = units - u == 8; // as in the down projections of many experts
    block b;
    b.codes = row->codes + at;
    b.ahead = b.codes + row->codes_ahead;
    uint8_t last[2 * 64 * 8];
    if (!half && units - u < 16 && row->end - b.codes < 2 * unit * bits) {
        memset(last, 0, (size_t)(2 * unit * bits));
        memcpy(last, row->codes + at, (size_t)(w->k / 8 * bits - at));
        b.codes = last;
    }
    for (int m = 0; m < mr; m++) b.q[m] = q[m] + u * unit;
    lanes sums[16 / LANES][FEW_ROWS];
#pragma GCC unroll 4
    for (int j = 0; j < 16 / LANES; j++) dots16(&b, j, mr, mode, bits, unit, half, sums[j]);
    f32x16 scale, bias = v_zero();
    __builtin_prefetch(row->scales + 2 * u + row->scales_ahead);
    if (mode == MODE_MXFP4) {
        scale = v_load_e8m0(row->scales, u, units);
    } else {
        __builtin_prefetch(row->biases + 2 * u + row->scales_ahead);
        scale = unit_params(row->scales, w->dtype, w->group, w->k, u);
        bias = unit_params(row->biases, w->dtype, w->group, w->k, u);
    }
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
        lanes mine[16 / LANES];
#pragma GCC unroll 4
        for (int j = 0; j < 16 / LANES; j++) mine[j] = sums[j][m];
        const float *x = params[m] + u;
        f32x16 dots = as_floats(mine);
        if (mode == MODE_MXFP4) dots = v_fma(v_set1(-E2M1_OFFSET), v_load(x + 6 * c), dots);
        acc[m] = v_fma(dots, v_mul(scale, v_load(unit == 32 ? x + c : x)), acc[m]);
        if (mode == MODE_AFFINE)
            acc[m] = v_fma(bias, v_load(unit == 32 ? x + 3 * c : x + 5 * c), acc[m]);
    }
}

// Multiplies rows i, i + apart, ... of the weight, one for each stream, with mr rows of
// activations.
#define few_streams KERNEL(few_streams)
SIMD void few_streams(const matmul_weight *w, int64_t i, int64_t apart, int64_t ahead_rows,
                      ptrdiff_t scales_ahead, const uint8_t *end, const int8_t *const *q,
                      const float *const *params, float *const *out, const int streams,
                      const int mr, const int mode, const int bits, const int unit) {
    f32x16 acc[WEIGHT_STREAMS][FEW_ROWS];
    row_at rows[WEIGHT_STREAMS];
#pragma GCC unroll 1
    for (int s = 0; s < streams; s++) {
        rows[s] = KERNEL(few_row)(w, i + s * apart, ahead_rows, scales_ahead, end, mode);
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) acc[s][m] = v_zero();
    }
    for (int64_t u = 0; u < w->k / unit; u += 16) {
#pragma GCC unroll 1
        for (int s = 0; s < streams; s++)
            few_block(w, rows + s, u, q, params, acc[s], mr, mode, bits, unit);
    }
#pragma GCC unroll 1
    for (int s = 0; s < streams; s++)
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) out[m][i + s * apart] = v_sum(acc[s][m]);
}

// Multiplies rows [0, n) of the weight with mr rows of activations. The same thread usually
// continues with the rows after n (kernels/cpu/pool.go). So at its end a stream prefetches the
// first rows that it will read there.
SIMD void few_tile(const matmul_weight *w, int64_t n, const int8_t *const *q,
                   const float *const *params, float *const *out, const int mr, const int mode,
                   const int bits, const int unit) {
    const int64_t length = n / WEIGHT_STREAMS, last = length - FEW_AHEAD / (w->k / 8 * bits);
    const ptrdiff_t scales_ahead = FEW_AHEAD * w->scales_stride / w->data_stride;
    const int64_t rest = n - length * WEIGHT_STREAMS; // rows after the streams
    const uint8_t *end = w->data + (n - 1) * w->data_stride + w->k / 8 * bits;
    for (int64_t i = 0; i < length + rest; i++) {
        const int streamed = i < length;
        few_streams(w, streamed ? i : length * (WEIGHT_STREAMS - 1) + i, length,
                    i < last ? 0 : n - length, scales_ahead, end, q, params, out,
                    streamed ? WEIGHT_STREAMS : 1, mr, mode, bits, unit);
    }
}

typedef void KERNEL(few_function)(const matmul_weight *w, int64_t n, const int8_t *const *q,
                                  const float *const *params, float *const *out);

#define FUNCTION(name, mr, mode, bits, unit) \
    static void KERNEL(name)(const matmul_weight *w, int64_t n, const int8_t *const *q, \
                             const float *const *params, float *const *out) { \
        few_tile(w, n, q, params, out, mr, mode, bits, unit); \
    }
#define TILE(mr, bits, unit) FUNCTION(few_##mr##_##bits##_##unit, mr, MODE_AFFINE, bits, unit)
#define TILES(mr) \
    TILE(mr, 2, 64) \
    TILE(mr, 3, 64) \
    TILE(mr, 4, 64) TILE(mr, 5, 64) TILE(mr, 6, 64) TILE(mr, 8, 64) TILE(mr, 2, 32) \
        TILE(mr, 3, 32) TILE(mr, 4, 32) TILE(mr, 5, 32) TILE(mr, 6, 32) TILE(mr, 8, 32) \
            FUNCTION(few_##mr##_mxfp4, mr, MODE_MXFP4, 4, 32)
TILES(1)
TILES(2)
TILES(4)
#define EACH(name) {KERNEL(few_1_##name), KERNEL(few_2_##name), KERNEL(few_4_##name)}

// Multiplies rows [from, to) of the weight with every row of the input, FEW_ROWS at a time.
static void KERNEL(few_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                             const float *params, const matmul_rows *r) {
    static KERNEL(few_function) *const functions[2][9][3] = {{[2] = EACH(2_64),
                                                              [3] = EACH(3_64),
                                                              [4] = EACH(4_64),
                                                              [5] = EACH(5_64),
                                                              [6] = EACH(6_64),
                                                              [8] = EACH(8_64)},
                                                             {[2] = EACH(2_32),
                                                              [3] = EACH(3_32),
                                                              [4] = EACH(4_32),
                                                              [5] = EACH(5_32),
                                                              [6] = EACH(6_32),
                                                              [8] = EACH(8_32)}};
    static KERNEL(few_function) *const mxfp4[3] = EACH(mxfp4);
    KERNEL(few_function) *const *tiles =
        w->mode == MODE_MXFP4 ? mxfp4 : functions[w->group == 32][w->bits];
    const matmul_weight part = matmul_weight_from(w, from);
    const int64_t c = matmul_padded_chunks(w->k);
    for (int64_t m = 0; m < r->count; m += FEW_ROWS) {
        const int rows = r->count - m < FEW_ROWS ? (int)(r->count - m) : FEW_ROWS;
        const int8_t *codes[FEW_ROWS];
        const float *row_params[FEW_ROWS];
        float *out[FEW_ROWS];
        for (int i = 0; i < FEW_ROWS; i++) { // three rows run as four, with the last one twice
            const int64_t row = matmul_out_row(r, m + (i < rows ? i : rows - 1)),
                          x = row / r->per_input;
            codes[i] = q + x * matmul_row_bytes(w->k) + (w->bits == 4) * c * 64;
            row_params[i] = params + x * MATMUL_PARAMS * c;
            out[i] = r->out + row * r->out_stride + from;
        }
        tiles[rows == 1 ? 0 : rows == 2 ? 1 : 2](&part, to - from, codes, row_params, out);
    }
}

#undef FUNCTION
#undef TILE
#undef TILES
#undef EACH
