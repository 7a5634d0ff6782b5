// Two to eight rows of activations and codes of 4 bits, on processors that multiply bytes in one
// instruction (VNNI). As in int8_slice.h, sixteen rows of the weight are side by side, a chunk of
// 64 elements at a time. But while a chunk is multiplied, the next one is loaded and transposed a
// step at a time: processors do not look ahead far enough to do both at once on their own.
//
// Rows of activations are multiplied all at once, so the unpacked codes need not be kept. Included
// after int8_slice.h.

// The steps of a chunk, of eight codes of each row. A step of the next chunk is a quarter of one
// half of p_columns.
#define SLICE_STEPS 8
#define SLICE_AHEAD (16 << 10) // most bytes from the next slice to what is prefetched
#define four_codes KERNEL(four_codes)
typedef struct {
    int8_t of[4];
} four_codes;

// Does a step of loading the next chunk, which is at byte `at` of its rows, into y.
SIMD void KERNEL(slice4_ahead)(const uint8_t *const *rows, int64_t at, const int step, lanes *y) {
    const int half = step / 4, part = step % 4;
    lanes *z = y + 4 * half;
    if (part < 2) {
#pragma GCC unroll 2
        for (int i = 2 * part; i < 2 * part + 2; i++)
            z[i] = _mm512_inserti64x4(
                _mm512_castsi256_si512(
                    _mm256_loadu_si256((const __m256i *)(rows[8 * half + i] + at))),
                _mm256_loadu_si256((const __m256i *)(rows[8 * half + i + 4] + at)), 1);
    } else if (part == 2) {
        const lanes a = z[0], b = z[1], c = z[2], d = z[3];
        z[0] = MM(unpacklo_epi32)(a, b), z[1] = MM(unpackhi_epi32)(a, b);
        z[2] = MM(unpacklo_epi32)(c, d), z[3] = MM(unpackhi_epi32)(c, d);
    } else {
        const lanes a = z[0], b = z[1], c = z[2], d = z[3];
        z[0] = MM(unpacklo_epi64)(a, c), z[1] = MM(unpackhi_epi64)(a, c);
        z[2] = MM(unpacklo_epi64)(b, d), z[3] = MM(unpackhi_epi64)(b, d);
    }
    // The compiler must not move a step to where its result is used.
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        if (part >= 2 || i / 2 == part) __asm__ volatile("" : "+v"(z[i]));
}

// Adds the products of sixteen times four codes with the four activations at q. GCC would load them
// apart, and twice as many instructions leave less of the next chunk in the processor's sight.
SIMD void KERNEL(slice4_dot)(lanes *sums, lanes codes, const int8_t *q) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*sums) : "v"(codes), "m"(*(const four_codes *)q));
}

// Sets x to the chunk whose steps were done.
SIMD void KERNEL(slice4_take)(const lanes *y, lanes *x) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_i32x4(y[i], y[4 + i], 0x88);
        x[4 + i] = _mm512_shuffle_i32x4(y[i], y[4 + i], 0xdd);
    }
}

// Sets `to` to the bfloat16 scales or biases of sixteen units, which are at p in the first row.
SIMD void KERNEL(slice4_params)(const uint8_t *p, ptrdiff_t stride, float (*to)[SLICE_ROWS]) {
    lanes y[8], x[8];
    __m256i row[SLICE_ROWS];
#pragma GCC unroll 16
    for (int i = 0; i < SLICE_ROWS; i++, p += stride) {
        row[i] = _mm256_loadu_si256((const __m256i *)p);
        __asm__("" : "+r"(p)); // GCC computes all addresses with slow vectors otherwise
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const int first = i / 4 * 8 + i % 4;
        y[i] = _mm512_inserti64x4(_mm512_castsi256_si512(row[first]), row[first + 4], 1);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        const lanes a = MM(unpacklo_epi32)(y[i], y[i + 1]), b = MM(unpackhi_epi32)(y[i], y[i + 1]);
        const lanes c = MM(unpacklo_epi32)(y[i + 2], y[i + 3]),
                    d = MM(unpackhi_epi32)(y[i + 2], y[i + 3]);
        y[i] = MM(unpacklo_epi64)(a, c), y[i + 1] = MM(unpackhi_epi64)(a, c);
        y[i + 2] = MM(unpacklo_epi64)(b, d), y[i + 3] = MM(unpackhi_epi64)(b, d);
    }
    KERNEL(slice4_take)(y, x);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        KERNEL(p_store)((uint8_t *)to[2 * i], MM(slli_epi32)(x[i], 16));
        KERNEL(p_store)((uint8_t *)to[2 * i + 1], MMI(and)(x[i], MM(set1_epi32)(-65536)));
    }
}
SIMD void KERNEL(slice4_scales)(slice *t, int64_t u, const int mode, const int unit) {
    const matmul_weight *w = &t->w;
    // As many bytes of the next slice's, in the order of memory.
    const int64_t ahead = SLICE_ROWS * w->scales_stride, bytes = mode == MODE_AFFINE ? 512 : 256;
    for (int64_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(w->scales + ahead + u * (bytes / 16) + i, 0, 2);
        if (mode == MODE_AFFINE)
            __builtin_prefetch(w->biases + ahead + u * (bytes / 16) + i, 0, 2);
    }
    if (mode == MODE_AFFINE && w->dtype == DTYPE_BF16 && w->group != 128 && w->k / unit - u >= 16) {
        KERNEL(slice4_params)(w->scales + 2 * u, w->scales_stride, t->scales);
        KERNEL(slice4_params)(w->biases + 2 * u, w->biases_stride, t->biases);
    } else {
        KERNEL(slice_scales)(t, u);
    }
}

static const float KERNEL(slice4_zeros)[MAX_SLICE4_ROWS][SLICE_ROWS];

// Adds the sums of unit u, the one with number j in its sixteen, to the accumulators. If these
// sixteen are the last of the row and complete, adds up the accumulators as v_sum does, each as
// soon as it is known: those of units 8 to 15 to those of 0 to 7, and so on. The last sum goes to
// out.
SIMD void KERNEL(slice4_fold)(slice *t, int64_t u, const int last, lanes (*sums)[2], const int mr,
                              const int mode) {
    const int64_t j = u % 16;
    const f32x16 scale = v_load(t->scales[j]),
                 bias = mode == MODE_AFFINE ? v_load(t->biases[j]) : v_set1(-E2M1_OFFSET);
    const float (*before)[SLICE_ROWS] =
        u < 16 ? KERNEL(slice4_zeros) : (const float (*)[SLICE_ROWS])t->acc[j];
    f32x16 a[MAX_SLICE4_ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++) {
        const f32x16 both = v_mul(scale, v_set1(t->scale[i][u])), sum = v_set1(t->sum[i][u]);
        const f32x16 dot = lf_of(mr > 4 ? sums[i][0] : l_add(sums[i][0], sums[i][1]));
        a[i] = v_load(before[i]);
        a[i] = mode == MODE_AFFINE ? v_fma(bias, sum, v_fma(dot, both, a[i]))
                                   : v_fma(v_fma(bias, sum, dot), both, a[i]);
    }
    if (!last || j < 8) {
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) v_store(t->acc[j][i], a[i]);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++) a[i] = v_add(v_load(t->acc[j - 8][i]), a[i]);
    if (j >= 12) {
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) a[i] = v_add(v_load(t->acc[j - 12][i]), a[i]);
    }
    if (j >= 14) {
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) a[i] = v_add(v_load(t->acc[j - 14][i]), a[i]);
    }
    if (j == 15) {
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) v_store(t->out[i], v_add(v_load(t->acc[0][i]), a[i]));
        return;
    }
    float (*to)[SLICE_ROWS] = t->acc[j >= 14 ? 0 : j >= 12 ? j - 12 : j - 8];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++) v_store(to[i], a[i]);
}

// Multiplies a chunk x with all rows of activations and sets x to the next chunk.
SIMD void KERNEL(slice4_chunk)(slice *t, int64_t chunk, const int last, lanes *x, const int mr,
                               const int mode, const int unit) {
    const int64_t k = t->w.k, units = k / unit, u = chunk * (64 / unit);
    const int more = (chunk + 1) * 64 < k;
    const uint8_t *const *rows = more ? t->rows : t->next;
    const int64_t rows_at = more ? (chunk + 1) * 32 : 0;
    const uint8_t *ahead = t->ahead + chunk * SLICE_ROWS * 32;
    const int8_t *q[MAX_SLICE4_ROWS];
    lanes sums[MAX_SLICE4_ROWS][2], y[8];
    const int two = mr <= 4; // sums of even and odd elements apart, so that few rows do not wait
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++) q[i] = t->q[i] + chunk / 2 * 128 + chunk % 2 * 32;
#pragma GCC unroll 8
    for (int s = 0; s < SLICE_STEPS; s++) {
        if (s % (unit / 8) == 0) {
#pragma GCC unroll 8
            for (int i = 0; i < mr; i++) sums[i][0] = sums[i][1] = l_zero();
        }
        lanes even, odd;
        KERNEL(p_apart)(x[s], mode, &even, &odd);
        __builtin_prefetch(ahead + 64 * s, 0, 2);
        KERNEL(slice4_ahead)(rows, rows_at, s, y);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++)
            KERNEL(slice4_dot)(&sums[i][0], even, q[i] + 4 * s);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++)
            KERNEL(slice4_dot)(&sums[i][two], odd, q[i] + 64 + 4 * s);
        if (unit == 32 && s == 3) KERNEL(slice4_fold)(t, u, last, sums, mr, mode);
    }
    if (unit == 64) KERNEL(slice4_fold)(t, u, last, sums, mr, mode);
    else if (u + 1 < units) KERNEL(slice4_fold)(t, u + 1, last, sums, mr, mode);
    KERNEL(slice4_take)(y, x);
}

// Multiplies the slice, whose first chunk is in `first`, and sets `first` to that of t->next.
SIMD void KERNEL(slice4_run)(slice *t, lanes *first, const int mr, const int mode, const int unit) {
    const int64_t chunks = (t->w.k + 63) / 64, units = t->w.k / unit;
    lanes x[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) x[i] = first[i];
    for (int64_t chunk = 0; chunk < chunks;) {
        const int64_t u = chunk * (64 / unit), end = chunk + unit / 4;
        const int last = u + 16 == units;
        KERNEL(slice4_scales)(t, u, mode, unit);
        for (; chunk < end && chunk < chunks; chunk++)
            KERNEL(slice4_chunk)(t, chunk, last, x, mr, mode, unit);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) first[i] = x[i];
    if (units % 16 == 0) return;
    for (int64_t a = units; a < 16; a++) memset(t->acc[a], 0, sizeof t->acc[a]);
    for (int i = 0; i < mr; i++) KERNEL(slice_out)(t, i, t->out[i]);
}

typedef void KERNEL(slice4_function)(slice *t, lanes *first);
#define SLICE4(mr, name, mode, unit) \
    static void KERNEL(slice4_##mr##_##name)(slice * t, lanes * first) { \
        KERNEL(slice4_run)(t, first, mr, mode, unit); \
    }
#define EACH(F) F(1) F(2) F(3) F(4) F(5) F(6) F(8)
#define BOTH(mr) \
    SLICE4(mr, 64, MODE_AFFINE, 64) SLICE4(mr, 32, MODE_AFFINE, 32) \
        SLICE4(mr, mxfp4, MODE_MXFP4, 32)
EACH(BOTH)
#undef SLICE4
#undef BOTH
#undef EACH

static KERNEL(slice4_function) *KERNEL(slice4_function_of)(const matmul_weight *w, int count) {
#define NAMED(mr) {KERNEL(slice4_##mr##_64), KERNEL(slice4_##mr##_32), KERNEL(slice4_##mr##_mxfp4)}
    static KERNEL(slice4_function) *const functions[MAX_SLICE4_ROWS + 1][3] = {
        [1] = NAMED(1), [2] = NAMED(2), [3] = NAMED(3), [4] = NAMED(4),
        [5] = NAMED(5), [6] = NAMED(6), [7] = NAMED(8), [8] = NAMED(8)};
#undef NAMED
    return functions[count][w->mode == MODE_MXFP4 ? 2 : w->group == 32];
}

// Sets t to the slice that starts with row `from` of the weight. The one after it starts with row
// `next`.
static void KERNEL(slice4_start)(slice *t, const matmul_weight *w, int64_t from, int64_t next) {
    const int64_t bytes = SLICE_ROWS * w->data_stride;
    t->w = matmul_weight_from(w, from);
    t->ahead = t->w.data + bytes + (bytes < SLICE_AHEAD ? bytes : SLICE_AHEAD);
    for (int i = 0; i < SLICE_ROWS; i++) {
        t->rows[i] = t->w.data + i * w->data_stride;
        t->next[i] = w->data + (next + i) * w->data_stride;
    }
}

// Multiplies rows [from, to) of the weight with all rows of the input, at most MAX_SLICE4_ROWS.
static void KERNEL(slice4_rows)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                                const float *params, const matmul_rows *r) {
    KERNEL(slice4_function) *const run = KERNEL(slice4_function_of)(w, (int)r->count);
    slice t;
    KERNEL(slice_inputs)(&t, w, q, params, r);
    lanes first[8];
    // A half chunk at the end of a row is loaded with the beginning of the next row. There the
    // activations are 0 (round.c).
    const int64_t least = SLICE_ROWS + (w->k % 64 > 0);
    if (to - from >= least) {
        KERNEL(slice4_start)(&t, w, from, from);
        KERNEL(p_columns)(t.rows, 0, first);
    }
    float *out[MAX_SLICE4_ROWS];
    for (int i = 0; i < MAX_SLICE4_ROWS; i++)
        out[i] = r->out + matmul_out_row(r, i < t.count ? i : t.count - 1) * r->out_stride;
    for (; to - from >= least; from += SLICE_ROWS) {
        const int more = to - from >= least + SLICE_ROWS;
        KERNEL(slice4_start)(&t, w, from, more ? from + SLICE_ROWS : from);
        for (int i = 0; i < MAX_SLICE4_ROWS; i++) t.out[i] = out[i] + from;
        run(&t, first);
    }
    if (from < to) KERNEL(few_rows)(w, from, to, q, params, r);
}
