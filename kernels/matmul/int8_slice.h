// Some rows of activations on processors that multiply bytes in one instruction (VNNI): sixteen
// rows of the weight, a slice of it, side by side as in a panel, but only a chunk of 64 elements of
// them at a time, in registers from the packed codes to the scaled sums. So neither codes nor sums
// go through memory, and nobody packs activations: they are read as they were rounded. Included
// after int8_panel.h, in the half for VNNI.
//
// Up to four rows it pays more to read a weight's rows as they lie in memory (int8_few.h), which
// they wait for; and rows of the weight that are no whole slice go that way too.

#define SLICE_ROWS LANES // of the weight
#define SLICE_TILE 4     // rows of activations whose sums are in registers at a time
#define SLICE_INPUTS 16  // rows of activations

// A slice on its way.
typedef struct {
    float scales[16][SLICE_ROWS], biases[16][SLICE_ROWS]; // of sixteen units
    float acc[16][SLICE_INPUTS][SLICE_ROWS];              // of each unit % 16
    // rows of activations, for codes of 4 bits with even and odd elements apart,
    const int8_t *q[SLICE_INPUTS];
    const float *scale[SLICE_INPUTS], *sum[SLICE_INPUTS]; // their scales, and what biases multiply
    // rows of activations; behind them the last one once more
    int count;
    matmul_weight w;                                      // from the slice's first row on
    const uint8_t *rows[SLICE_ROWS];                      // of the slice, packed
} __attribute__((aligned(64))) slice;

// The scales or biases of units [u, u+16): a vector for each row becomes one for each unit.
SIMD void KERNEL(slice_params)(const matmul_weight *w, const uint8_t *p, ptrdiff_t stride, int64_t u, float (*to)[SLICE_ROWS]) {
    const uint8_t *rows[SLICE_ROWS];
    float *lines[16];
    lanes x[SLICE_ROWS];
    for (int i = 0; i < SLICE_ROWS; i++) rows[i] = p + i * stride, lines[i] = to[i];
    if (w->mode == MODE_AFFINE && w->dtype == DTYPE_BF16 && w->group != 128 && w->k / matmul_unit(w) - u >= 16) {
    	// in pairs
        KERNEL(params_bf16)(rows, u, lines);
        return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < SLICE_ROWS; i++)
        x[i] = _mm512_castps_si512(w->mode == MODE_MXFP4 ? v_load_e8m0(rows[i], u, w->k / 32) : unit_params(rows[i], w->dtype, w->group, w->k, u));
    p_transpose(x);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) KERNEL(p_store)((uint8_t *)lines[i], x[i]);
}
static void KERNEL(slice_scales)(slice *t, int64_t u) {
    const matmul_weight *w = &t->w;
    KERNEL(slice_params)(w, w->scales, w->scales_stride, u, t->scales);
    if (w->mode == MODE_AFFINE) KERNEL(slice_params)(w, w->biases, w->biases_stride, u, t->biases);
}

// The codes of a chunk, from byte `at` of each row on: four elements of all rows in each of sixteen
// vectors. Of 4 bits the even ones come first, then the odd ones: they are transposed while they
// are packed, so half as much is moved, and taken apart by a mask and a shift.
SIMD void KERNEL(slice_chunk)(const slice *t, int64_t at, const int half, const int mode, const int bits, lanes *c) {
    if (bits != 4) {
#pragma GCC unroll 16
        for (int i = 0; i < SLICE_ROWS; i++) c[i] = half ? c_load_half(t->rows[i] + at, bits) : c_load(t->rows[i] + at, bits);
        p_transpose(c);
        return;
    }
    lanes x[8];
    if (half) {
        uint8_t padded[SLICE_ROWS][32] = {{0}};
        const uint8_t *rows[SLICE_ROWS];
        for (int i = 0; i < SLICE_ROWS; i++) memcpy(padded[i], t->rows[i] + at, 16), rows[i] = padded[i];
        KERNEL(p_columns)(rows, 0, x);
    } else {
        KERNEL(p_columns)(t->rows, at, x);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) KERNEL(p_apart)(x[i], mode, &c[i], &c[8 + i]);
}

// acc += rows [m, m+mr) of activations times unit u, which is the chunk's first or second.
SIMD void KERNEL(slice_unit)(slice *t, const lanes *c, int64_t u, const int second, int m, const int mr, const int mode, const int bits, const int unit) {
    const int split = bits == 4, steps = unit / 8; // of half a unit
    // round.c: of two chunks all even elements, then all odd ones
    const int64_t at = split ? u * unit / 128 * 128 + u * unit % 128 / 2 : u * unit;
    const int8_t *q[SLICE_TILE];
    lanes sums[SLICE_TILE][2]; // of even and odd elements, or of the unit's halves
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++) q[i] = t->q[m + i] + at, sums[i][0] = sums[i][1] = l_zero();
#pragma GCC unroll 8
    for (int s = 0; s < steps; s++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const lanes x = split ? c[8 * v + second * steps + s] : c[8 * second + v * steps + s];
#pragma GCC unroll 4
            for (int i = 0; i < mr; i++) sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], x, KERNEL(p_four)(q[i] + 4 * s + v * (split ? 64 : unit / 2)));
        }
    const f32x16 scale = v_load(t->scales[u % 16]), bias = mode == MODE_AFFINE ? v_load(t->biases[u % 16]) : v_set1(-E2M1_OFFSET);
    float(*acc)[SLICE_ROWS] = t->acc[u % 16] + m;
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++) {
        const f32x16 both = v_mul(scale, v_set1(t->scale[m + i][u])), sum = v_set1(t->sum[m + i][u]);
        const f32x16 dot = lf_of(l_add(sums[i][0], sums[i][1])), a = u < 16 ? v_zero() : v_load(acc[i]);
        v_store(acc[i], mode == MODE_AFFINE ? v_fma(bias, sum, v_fma(dot, both, a)) : v_fma(v_fma(bias, sum, dot), both, a));
    }
}

// The slice times all rows of activations. The one behind it lies as this one does, so each chunk
// asks for as much of it, in the order of memory.
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
            for (; t->count - m > SLICE_TILE / 2; m += SLICE_TILE) KERNEL(slice_unit)(t, c, first + second, second, m, SLICE_TILE, mode, bits, unit);
            if (m < t->count) KERNEL(slice_unit)(t, c, first + second, second, m, SLICE_TILE / 2, mode, bits, unit);
        }
    }
    for (int64_t a = units; a < 16; a++) memset(t->acc[a], 0, sizeof t->acc[a]);
}

// The accumulators of row m of activations add up as lanes do in v_sum.
static void KERNEL(slice_out)(const slice *t, int m, float *out) {
    f32x16 a[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = v_add(v_load(t->acc[i][m]), v_load(t->acc[i + 8][m]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) a[i] = v_add(a[i], a[i + 4]);
    v_store(out, v_add(v_add(a[0], a[2]), v_add(a[1], a[3])));
}

typedef void KERNEL(slice_function)(slice *t);
#define SLICE(name, mode, bits, unit) static void KERNEL(slice_##name)(slice *t) { KERNEL(slice_run)(t, mode, bits, unit); }
#define BOTH(bits) SLICE(bits##_64, MODE_AFFINE, bits, 64) SLICE(bits##_32, MODE_AFFINE, bits, 32)
BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(6) BOTH(8)
SLICE(mxfp4, MODE_MXFP4, 4, 32)
#undef SLICE
#undef BOTH

static KERNEL(slice_function) *KERNEL(slice_function_of)(const matmul_weight *w) {
#define BOTH(bits) [bits] = {KERNEL(slice_##bits##_64), KERNEL(slice_##bits##_32)}
    static KERNEL(slice_function) *const functions[9][2] = {BOTH(2), BOTH(3), BOTH(4), BOTH(5), BOTH(6), BOTH(8)};
#undef BOTH
    return w->mode == MODE_MXFP4 ? KERNEL(slice_mxfp4) : functions[w->bits][w->group == 32];
}

// The rows of activations, SLICE_INPUTS at most.
static void KERNEL(slice_inputs)(slice *t, const matmul_weight *w, const int8_t *q, const float *runs, const matmul_rows *r) {
    const int64_t c = ((w->k + 63) / 64 + 15) & ~(int64_t)15;
    const int64_t scale = w->group == 32 ? c : 0, sum = w->mode == MODE_MXFP4 ? 6 * c : w->group == 32 ? 3 * c : 5 * c;
    t->count = (int)r->count;
    for (int i = 0; i < SLICE_INPUTS; i++) {
        const int64_t x = matmul_out_row(r, i < t->count ? i : t->count - 1) / r->per_input;
        t->q[i] = q + (2 * x + (w->bits == 4)) * c * 64;
        t->scale[i] = runs + x * RUNS * c + scale;
        t->sum[i] = runs + x * RUNS * c + sum;
    }
}

// Rows [from, to) of the weight with every row of the input, SLICE_INPUTS of them at most.
static void KERNEL(slice_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const matmul_rows *r) {
    KERNEL(slice_function) *const run = KERNEL(slice_function_of)(w);
    slice t;
    KERNEL(slice_inputs)(&t, w, q, runs, r);
    for (; to - from >= SLICE_ROWS; from += SLICE_ROWS) {
        t.w = matmul_weight_from(w, from);
        for (int i = 0; i < SLICE_ROWS; i++) {
            t.rows[i] = t.w.data + i * w->data_stride;
            // of the next slice
            __builtin_prefetch(t.w.scales + (SLICE_ROWS + i) * w->scales_stride);
            if (w->mode == MODE_AFFINE) __builtin_prefetch(t.w.biases + (SLICE_ROWS + i) * w->biases_stride);
        }
        run(&t);
        for (int i = 0; i < t.count; i++) KERNEL(slice_out)(&t, i, r->out + matmul_out_row(r, i) * r->out_stride + from);
    }
    if (from < to) KERNEL(few_rows)(w, from, to, q, runs, r);
}
