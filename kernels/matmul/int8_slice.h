// Five to sixteen rows of activations on processors that multiply bytes in one instruction (VNNI).
// A slice is sixteen rows of the weight side by side, as in a panel, but only a chunk of 64
// elements at a time, which stays in registers from the packed codes to the scaled sums. Neither
// codes nor sums pass through memory, and activations need no packing. Included after int8_panel.h,
// for VNNI.
//
// With up to four rows of activations, reading the weight dominates. Then int8_few.h is faster,
// because it reads the weight's rows in order. It also multiplies the last rows of a weight, if
// they are fewer than a slice.

#define SLICE_ROWS LANES // rows of the weight
#define SLICE_TILE 4     // rows of activations whose sums are in registers together

// A slice while it is multiplied. With fewer than MAX_SLICE_ROWS rows of activations, q, scale and
// sum repeat the last one.
typedef struct {
    float scales[16][SLICE_ROWS], biases[16][SLICE_ROWS]; // of sixteen units
    float acc[16][MAX_SLICE_ROWS][SLICE_ROWS];            // accumulator u % 16 of unit u
    const int8_t *q[MAX_SLICE_ROWS];    // activations; for codes of 4 bits, split (round.c)
    const float *scale[MAX_SLICE_ROWS]; // their scales
    const float *sum[MAX_SLICE_ROWS];   // their sums, which biases multiply
    int count;                          // rows of activations
    matmul_weight w;                    // starts with the slice's first row
    const uint8_t *rows[SLICE_ROWS];    // packed rows of the slice
    const uint8_t *next[SLICE_ROWS];    // those of the one after it (int8_slice4.h)
    const uint8_t *ahead;               // what to prefetch (int8_slice4.h)
    float *out[MAX_SLICE_ROWS];         // outputs of the slice (int8_slice4.h)
} __attribute__((aligned(64))) slice;

// Transposes the scales or biases of units [u, u+16): a vector per row becomes one per unit.
SIMD void KERNEL(slice_params)(const matmul_weight *w, const uint8_t *p, ptrdiff_t stride,
                               int64_t u, float (*to)[SLICE_ROWS]) {
    const uint8_t *rows[SLICE_ROWS];
    float *lines[16];
    lanes x[SLICE_ROWS];
    for (int i = 0; i < SLICE_ROWS; i++) rows[i] = p + i * stride, lines[i] = to[i];
    if (w->mode == MODE_AFFINE && w->dtype == DTYPE_BF16 && w->group != 128 &&
        w->k / matmul_unit(w) - u >= 16) {
        KERNEL(params_bf16)(rows, u, lines);
        return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < SLICE_ROWS; i++)
        x[i] = _mm512_castps_si512(w->mode == MODE_MXFP4
                                       ? v_load_e8m0(rows[i], u, w->k / 32)
                                       : unit_params(rows[i], w->dtype, w->group, w->k, u));
    p_transpose(x);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) KERNEL(p_store)((uint8_t *)lines[i], x[i]);
}
static void KERNEL(slice_scales)(slice *t, int64_t u) {
    const matmul_weight *w = &t->w;
    KERNEL(slice_params)(w, w->scales, w->scales_stride, u, t->scales);
    if (w->mode == MODE_AFFINE) KERNEL(slice_params)(w, w->biases, w->biases_stride, u, t->biases);
}

// Loads the codes of a chunk, which starts at byte `at` of each row. Each of the sixteen vectors
// has four elements of all rows. Codes of 4 bits are transposed while they are packed, and then
// split into even and odd elements. With half, the chunk has 32 elements.
SIMD void KERNEL(slice_chunk)(const slice *t, int64_t at, const int half, const int mode,
                              const int bits, lanes *c) {
    if (bits != 4) {
#pragma GCC unroll 16
        for (int i = 0; i < SLICE_ROWS; i++)
            c[i] = half ? c_load_half(t->rows[i] + at, bits) : c_load(t->rows[i] + at, bits);
        p_transpose(c);
        return;
    }
    lanes x[8];
    if (half) {
        uint8_t padded[SLICE_ROWS][32] = {{0}};
        const uint8_t *rows[SLICE_ROWS];
        for (int i = 0; i < SLICE_ROWS; i++)
            memcpy(padded[i], t->rows[i] + at, 16), rows[i] = padded[i];
        KERNEL(p_columns)(rows, 0, x);
    } else {
        KERNEL(p_columns)(t->rows, at, x);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) KERNEL(p_apart)(x[i], mode, &c[i], &c[8 + i]);
}

// Adds to acc the products of unit u with rows [m, m+mr) of activations. second: u is the second
// unit of its chunk.
SIMD void KERNEL(slice_unit)(slice *t, const lanes *c, int64_t u, const int second, int m,
                             const int mr, const int mode, const int bits, const int unit) {
    const int split = bits == 4, steps = unit / 8; // steps of half a unit
    // Split activations have the even elements of two chunks, then the odd ones (SPLIT_CHUNKS).
    const int64_t at = split ? u * unit / 128 * 128 + u * unit % 128 / 2 : u * unit;
    const int8_t *q[SLICE_TILE];
    lanes sums[SLICE_TILE][2]; // for even and odd elements, or for the unit's halves
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++) q[i] = t->q[m + i] + at, sums[i][0] = sums[i][1] = l_zero();
#pragma GCC unroll 8
    for (int s = 0; s < steps; s++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const lanes x = split ? c[8 * v + second * steps + s] : c[8 * second + v * steps + s];
#pragma GCC unroll 4
            for (int i = 0; i < mr; i++)
                sums[i][v] = _mm512_dpbusd_epi32(
                    sums[i][v], x, KERNEL(p_four)(q[i] + 4 * s + v * (split ? 64 : unit / 2)));
        }
    const f32x16 scale = v_load(t->scales[u % 16]),
                 bias = mode == MODE_AFFINE ? v_load(t->biases[u % 16]) : v_set1(-E2M1_OFFSET);
    float (*acc)[SLICE_ROWS] = t->acc[u % 16] + m;
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++) {
        const f32x16 both = v_mul(scale, v_set1(t->scale[m + i][u])),
                     sum = v_set1(t->sum[m + i][u]);
        const f32x16 dot = lf_of(l_add(sums[i][0], sums[i][1])),
                     a = u < 16 ? v_zero() : v_load(acc[i]);
        v_store(acc[i], mode == MODE_AFFINE ? v_fma(bias, sum, v_fma(dot, both, a))
                                            : v_fma(v_fma(bias, sum, dot), both, a));
    }
}

// Multiplies the slice with all rows of activations. Each chunk prefetches as many bytes of the
// next slice, in the order of memory.
SIMD void KERNEL(slice_run)(slice *t, const int mode, const int bits, const int unit) {
    const int64_t k = t->w.k, units = k / unit, bytes = SLICE_ROWS * 8 * bits;
    const uint8_t *next = t->w.data + SLICE_ROWS * t->w.data_stride;
    for (int64_t at = 0; at * 64 < k; at++) {
        const int64_t first = at * 64 / unit;
        if (first % 16 == 0) KERNEL(slice_scales)(t, first);
        for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + at * bytes + i);
        lanes c[16];
        KERNEL(slice_chunk)(t, at * 8 * bits, k - at * 64 < 64, mode, bits, c);
#pragma GCC unroll 2
        for (int second = 0; second < 64 / unit; second++) {
            if (first + second == units) break;
            int m = 0;
            for (; t->count - m > SLICE_TILE / 2; m += SLICE_TILE)
                KERNEL(slice_unit)(t, c, first + second, second, m, SLICE_TILE, mode, bits, unit);
            if (m < t->count)
                KERNEL(slice_unit)(t, c, first + second, second, m, SLICE_TILE / 2, mode, bits,
                                   unit);
        }
    }
    for (int64_t a = units; a < 16; a++) memset(t->acc[a], 0, sizeof t->acc[a]);
}

// Adds up the accumulators of row m of activations as v_sum adds lanes.
static void KERNEL(slice_out)(const slice *t, int m, float *out) {
    f32x16 a[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = v_add(v_load(t->acc[i][m]), v_load(t->acc[i + 8][m]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) a[i] = v_add(a[i], a[i + 4]);
    v_store(out, v_add(v_add(a[0], a[2]), v_add(a[1], a[3])));
}

typedef void KERNEL(slice_function)(slice *t);
#define SLICE(name, mode, bits, unit) \
    static void KERNEL(slice_##name)(slice * t) { KERNEL(slice_run)(t, mode, bits, unit); }
#define BOTH(bits) SLICE(bits##_64, MODE_AFFINE, bits, 64) SLICE(bits##_32, MODE_AFFINE, bits, 32)
BOTH(2)
BOTH(3)
    BOTH(4) BOTH(5) BOTH(6) BOTH(8) SLICE(mxfp4, MODE_MXFP4, 4, 32)
#undef SLICE
#undef BOTH

        static KERNEL(slice_function) *
    KERNEL(slice_function_of)(const matmul_weight *w) {
#define BOTH(bits) [bits] = {KERNEL(slice_##bits##_64), KERNEL(slice_##bits##_32)}
    static KERNEL(slice_function) *const functions[9][2] = {BOTH(2), BOTH(3), BOTH(4),
                                                            BOTH(5), BOTH(6), BOTH(8)};
#undef BOTH
    return w->mode == MODE_MXFP4 ? KERNEL(slice_mxfp4) : functions[w->bits][w->group == 32];
}

// Sets t's rows of activations.
static void KERNEL(slice_inputs)(slice *t, const matmul_weight *w, const int8_t *q,
                                 const float *params, const matmul_rows *r) {
    const int64_t c = matmul_padded_chunks(w->k);
    const int64_t scale = w->group == 32 ? c : 0, sum = w->mode == MODE_MXFP4 ? 6 * c
                                                        : w->group == 32      ? 3 * c
                                                                              : 5 * c;
    t->count = (int)r->count;
    for (int i = 0; i < MAX_SLICE_ROWS; i++) {
        const int64_t x = matmul_out_row(r, i < t->count ? i : t->count - 1) / r->per_input;
        t->q[i] = q + x * matmul_row_bytes(w->k) + (w->bits == 4) * c * 64;
        t->scale[i] = params + x * MATMUL_PARAMS * c + scale;
        t->sum[i] = params + x * MATMUL_PARAMS * c + sum;
    }
}

// Multiplies rows [from, to) of the weight with all rows of the input, at most MAX_SLICE_ROWS.
static void KERNEL(slice_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                               const float *params, const matmul_rows *r) {
    KERNEL(slice_function) *const run = KERNEL(slice_function_of)(w);
    slice t;
    KERNEL(slice_inputs)(&t, w, q, params, r);
    for (; to - from >= SLICE_ROWS; from += SLICE_ROWS) {
        t.w = matmul_weight_from(w, from);
        for (int i = 0; i < SLICE_ROWS; i++) {
            t.rows[i] = t.w.data + i * w->data_stride;
            // The next slice's scales and biases.
            __builtin_prefetch(t.w.scales + (SLICE_ROWS + i) * w->scales_stride);
            if (w->mode == MODE_AFFINE)
                __builtin_prefetch(t.w.biases + (SLICE_ROWS + i) * w->biases_stride);
        }
        run(&t);
        for (int i = 0; i < t.count; i++)
            KERNEL(slice_out)(&t, i, r->out + matmul_out_row(r, i) * r->out_stride + from);
    }
    if (from < to) KERNEL(few_rows)(w, from, to, q, params, r);
}
