// Some rows of activations, up to STRIP_INPUTS, by Intel's matrix unit (AMX): sixteen rows of the weight at a time, unpacked as they lie, are the first
// operand and the activations the second, so a row of sums is a row of the weight and its lanes are rows of activations. Nothing is
// transposed but the activations, once, and a weight costs the same for one row as for sixteen. Included after int8_panel.h, in the half for VNNI.
//
// Units go in fours through three stages: unpacked, multiplied, scaled. Each reads from memory what the one before it has written a turn
// ago, so that nothing waits for it; and the next sixteen rows are unpacked while the last are scaled.

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8")

#define STRIP_INPUTS 16 // rows of activations
#define STRIP_ROWS 16   // of the weight
#define STRIP_FROM 5    // rows of activations from which this way is the faster one, as measured (PERF.md)

// Activations as the second operand wants them: codes [units][unit/4][inputs][4], then float32 [units][2][inputs], scales and what biases multiply.
// Up to eight rows lie as eight, in half the memory: what is at work should stay in the first-level cache.
typedef struct {
    const int8_t *codes;
    const float *params;
} strip_inputs;

// The first `inputs` lanes, 8 or 16.
SIMD void KERNEL(strip_store)(uint8_t *p, lanes x, const int inputs) {
    if (inputs == 8) _mm256_storeu_si256((__m256i *)p, _mm512_castsi512_si256(x));
    else KERNEL(p_store)(p, x);
}

SIMD strip_inputs KERNEL(strip_pack)(const matmul_weight *w, const int8_t *q, const float *runs, const matmul_rows *r, const int inputs, uint8_t *memory) {
    const int64_t unit = matmul_unit(w), units = w->k / unit, chunks = (w->k + 63) / 64, c = (chunks + 15) & ~(int64_t)15;
    const int64_t scale = unit == 32 ? c : 0, sum = w->mode == MODE_MXFP4 ? 6 * c : unit == 32 ? 3 * c : 5 * c;
    float *params = (float *)(memory + chunks * 64 * inputs);
    const int8_t *codes[STRIP_INPUTS];
    const float *run[STRIP_INPUTS];
    for (int i = 0; i < STRIP_INPUTS; i++) { // the last one stands for those that are missing
        const int64_t x = matmul_out_row(r, i < r->count ? i : r->count - 1) / r->per_input;
        codes[i] = q + 2 * x * c * 64;
        run[i] = runs + x * RUNS * c;
    }
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        lanes x[STRIP_INPUTS];
        for (int i = 0; i < STRIP_INPUTS; i++) x[i] = p_load((const uint8_t *)codes[i] + chunk * 64);
        p_transpose(x);
        for (int i = 0; i < 16; i++) KERNEL(strip_store)(memory + (chunk * 16 + i) * inputs * 4, x[i], inputs);
    }
    for (int64_t u = 0; u < units; u += 16)
        for (int which = 0; which < 2; which++) {
            lanes x[STRIP_INPUTS];
            for (int i = 0; i < STRIP_INPUTS; i++) x[i] = p_load((const uint8_t *)(run[i] + (which ? sum : scale) + u));
            p_transpose(x);
            for (int64_t i = 0; i < 16 && u + i < units; i++) KERNEL(strip_store)((uint8_t *)(params + ((u + i) * 2 + which) * inputs), x[i], inputs);
        }
    return (strip_inputs){(const int8_t *)memory, params};
}

// Sixteen rows of a weight after the other, on their way through the stages.
typedef struct {
    const matmul_weight *w;
    const strip_inputs *x;
    const matmul_rows *r;
    int64_t from, to, units, stride;                              // stride of scales and biases
    float *scales, *biases;                                       // [STRIP_ROWS][stride] of the rows that are being scaled
    uint8_t codes[2][4][STRIP_ROWS][64] __attribute__((aligned(64))); // by turn: four units, or two chunks of two units
    int32_t sums[2][4 * STRIP_ROWS * STRIP_INPUTS] __attribute__((aligned(64))); // [4][STRIP_ROWS][inputs]
    float acc[16 * STRIP_ROWS * STRIP_INPUTS] __attribute__((aligned(64)));      // [16][STRIP_ROWS][inputs]
} strip_rows;

// Row i of those from n on; the last one stands for those that are missing.
SIMD int64_t KERNEL(strip_row)(const strip_rows *t, int64_t n, int64_t i) { return n + i < t->to ? n + i : t->to - 1; }

// Unpacks a chunk of sixteen rows.
SIMD void KERNEL(strip_unpack)(const strip_rows *t, uint8_t (*codes)[64], int64_t n, int64_t chunk, const int mode, const int bits) {
    const int64_t k = t->w->k, stride = t->w->data_stride;
    const uint8_t *p = t->w->data + n * stride + chunk * 8 * bits, *last = t->w->data + (t->to - 1) * stride + chunk * 8 * bits;
#pragma GCC unroll 4
    for (int i = 0; i < STRIP_ROWS; i++, p = p < last ? p + stride : last) {
        if (bits > 4 || chunk % 2 == 0) __builtin_prefetch(p + STRIP_ROWS * stride);
        codes64 c = k - chunk * 64 >= 64 ? c_load(p, bits) : c_load_half(p, bits);
        if (mode == MODE_MXFP4) c = c_e2m1(c);
        KERNEL(p_store)(codes[i], c);
    }
}

// The scales and biases of sixteen rows, as floats.
static void KERNEL(strip_params)(const strip_rows *t, int64_t n) {
    const matmul_weight *w = t->w;
    for (int64_t i = 0; i < STRIP_ROWS; i++) {
        const int64_t row = KERNEL(strip_row)(t, n, i);
        const uint8_t *scales = w->scales + row * w->scales_stride, *biases = w->mode == MODE_AFFINE ? w->biases + row * w->biases_stride : NULL;
        __builtin_prefetch(scales + 2 * STRIP_ROWS * w->scales_stride);
        if (biases) __builtin_prefetch(biases + 2 * STRIP_ROWS * w->biases_stride);
        for (int64_t u = 0; u < t->units; u += 16) {
            if (!biases) {
                v_store(t->scales + i * t->stride + u, v_load_e8m0(scales, u, t->units));
                continue;
            }
            v_store(t->scales + i * t->stride + u, unit_params(scales, w->dtype, w->group, w->k, u));
            v_store(t->biases + i * t->stride + u, unit_params(biases, w->dtype, w->group, w->k, u));
        }
    }
}

SIMD void KERNEL(strip_scale)(strip_rows *t, const int32_t *sums, int64_t u, const int mode, const int inputs) {
    const float *params = t->x->params + u * 2 * inputs, *scales = t->scales + u, *biases = t->biases + u;
    float *acc = t->acc + u % 16 * STRIP_ROWS * inputs;
    const int64_t stride = t->stride;
    const int first = u < 16;
    if (inputs == 8) {
        const __m256 one = _mm256_loadu_ps(params), sum = _mm256_loadu_ps(params + 8);
#pragma GCC unroll 16
        for (int i = 0; i < STRIP_ROWS; i++) {
            const __m256 dot = _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(sums + 8 * i))), s = _mm256_mul_ps(_mm256_set1_ps(scales[i * stride]), one);
            const __m256 a = first ? _mm256_setzero_ps() : _mm256_loadu_ps(acc + 8 * i);
            _mm256_storeu_ps(acc + 8 * i, mode == MODE_MXFP4 ? _mm256_fmadd_ps(_mm256_fmadd_ps(_mm256_set1_ps(-E2M1_OFFSET), sum, dot), s, a)
                                                             : _mm256_fmadd_ps(_mm256_set1_ps(biases[i * stride]), sum, _mm256_fmadd_ps(dot, s, a)));
        }
        return;
    }
    const f32x16 one = v_load(params), sum = v_load(params + 16);
#pragma GCC unroll 16
    for (int i = 0; i < STRIP_ROWS; i++) {
        const f32x16 dot = lf_of(p_load((const uint8_t *)(sums + 16 * i))), s = v_mul(v_set1(scales[i * stride]), one), a = first ? v_zero() : v_load(acc + 16 * i);
        v_store(acc + 16 * i, mode == MODE_MXFP4 ? v_fma(v_fma(v_set1(-E2M1_OFFSET), sum, dot), s, a) : v_fma(v_set1(biases[i * stride]), sum, v_fma(dot, s, a)));
    }
}

// The accumulators of the rows from n on add up as lanes do in v_sum, and go to their columns of the outputs.
SIMD void KERNEL(strip_out)(strip_rows *t, int64_t n, const int inputs) {
    for (int64_t a = t->units; a < 16; a++) memset(t->acc + a * STRIP_ROWS * inputs, 0, (size_t)(STRIP_ROWS * inputs) * 4);
    const int at = STRIP_ROWS * inputs; // from one accumulator to the next
    lanes out[STRIP_ROWS];
    for (int i = 0; i < at; i += 16) { // one row of the weight, or two
        f32x16 a[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) a[j] = v_add(v_load(t->acc + j * at + i), v_load(t->acc + (j + 8) * at + i));
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) a[j] = v_add(a[j], a[j + 4]);
        const lanes sum = _mm512_castps_si512(v_add(v_add(a[0], a[2]), v_add(a[1], a[3])));
        out[i / inputs] = sum;
        if (inputs == 8) out[i / inputs + 1] = _mm512_shuffle_i32x4(sum, sum, 0x0e);
    }
    p_transpose(out);
    const int count = t->to - n < STRIP_ROWS ? (int)(t->to - n) : STRIP_ROWS;
    for (int m = 0; m < t->r->count; m++) v_store_n(t->r->out + matmul_out_row(t->r, m) * t->r->out_stride + n, _mm512_castsi512_ps(out[m]), count);
}

// Where a stage is: four units of sixteen rows.
typedef struct {
    int64_t n, u;
    int turn;
} strip_at;

SIMD strip_at KERNEL(strip_next)(const strip_rows *t, strip_at at) {
    at.u += 4, at.turn ^= 1;
    if (at.u >= t->units) at.u = 0, at.n += STRIP_ROWS;
    return at;
}

// Everything: a turn unpacks four units at `ahead`, multiplies the four before them, and scales the four before those.
SIMD void KERNEL(strip_run)(strip_rows *t, const int mode, const int bits, const int unit, const int inputs) {
    strip_at ahead = {t->from, 0, 0}, now = {t->from, -1, 0}, behind = {t->from, -1, 0}; // u < 0: nothing yet
    while (behind.n < t->to) {
        uint8_t *codes = t->codes[now.turn][0][0];
        int32_t *sums = t->sums[now.turn];
        const int8_t *q = t->x->codes + now.u * unit * inputs;
        const int64_t stored = now.n < t->to && now.u >= 0 ? t->units - now.u : 0, scaled = behind.u >= 0 ? t->units - behind.u : 0;
        __asm__ volatile("" ::: "memory"); // nor that loading tiles reads what was unpacked and packed
        if (behind.u == 0) KERNEL(strip_params)(t, behind.n);
        // What stage does of its unit i; C, A and B are tiles.
#define TURN(i, C, A, B) \
        if (i < stored) { \
            _tile_zero(C); \
            _tile_loadd(B, q + i * unit * inputs, inputs * 4); \
            _tile_loadd(A, unit == 64 ? codes + i * STRIP_ROWS * 64 : codes + i / 2 * STRIP_ROWS * 64 + i % 2 * 32, 64); \
            _tile_dpbusd(C, A, B); /* unsigned codes times signed activations */ \
        } \
        if (ahead.n < t->to && (unit == 64 || i % 2 == 0) && i < t->units - ahead.u) \
            KERNEL(strip_unpack)(t, t->codes[ahead.turn][unit == 64 ? i : i / 2], ahead.n, (ahead.u + i) * unit / 64, mode, bits); \
        if (i < scaled) KERNEL(strip_scale)(t, t->sums[behind.turn] + i * STRIP_ROWS * inputs, behind.u + i, mode, inputs);
        TURN(0, 0, 4, 6)
        TURN(1, 1, 5, 7)
        if (stored > 0) _tile_stored(0, sums, inputs * 4);
        TURN(2, 2, 4, 6)
        if (stored > 1) _tile_stored(1, sums + STRIP_ROWS * inputs, inputs * 4);
        TURN(3, 3, 5, 7)
        if (stored > 2) _tile_stored(2, sums + 2 * STRIP_ROWS * inputs, inputs * 4);
        if (stored > 3) _tile_stored(3, sums + 3 * STRIP_ROWS * inputs, inputs * 4);
#undef TURN
        if (behind.u >= 0 && behind.u + 4 >= t->units) KERNEL(strip_out)(t, behind.n, inputs);
        if (now.u >= 0) behind = behind.u < 0 ? (strip_at){t->from, 0, now.turn} : KERNEL(strip_next)(t, behind);
        now = now.u < 0 ? (strip_at){t->from, 0, ahead.turn} : KERNEL(strip_next)(t, now);
        ahead = KERNEL(strip_next)(t, ahead);
    }
}

typedef void KERNEL(strip_function)(strip_rows *t);
#define TILE(bits, unit, inputs) \
    static void KERNEL(strip_##bits##_##unit##_##inputs)(strip_rows *t) { KERNEL(strip_run)(t, MODE_AFFINE, bits, unit, inputs); }
#define TILES(unit, inputs) TILE(2, unit, inputs) TILE(3, unit, inputs) TILE(4, unit, inputs) TILE(5, unit, inputs) TILE(6, unit, inputs) TILE(8, unit, inputs)
TILES(64, 8) TILES(64, 16) TILES(32, 8) TILES(32, 16)
#define NAME(bits, unit, inputs) [bits] = KERNEL(strip_##bits##_##unit##_##inputs)
#define EACH(unit, inputs) {NAME(2, unit, inputs), NAME(3, unit, inputs), NAME(4, unit, inputs), NAME(5, unit, inputs), NAME(6, unit, inputs), NAME(8, unit, inputs)}
static void KERNEL(strip_mxfp4_8)(strip_rows *t) { KERNEL(strip_run)(t, MODE_MXFP4, 4, 32, 8); }
static void KERNEL(strip_mxfp4_16)(strip_rows *t) { KERNEL(strip_run)(t, MODE_MXFP4, 4, 32, 16); }

// Rows [from, to) of the weight with every row of the input, STRIP_INPUTS of them at most. scratch holds a panel, which is more than this takes.
static void KERNEL(strip_few)(const matmul_weight *w, int64_t from, int64_t to, const int8_t *q, const float *runs, const matmul_rows *r, void *scratch) {
    static KERNEL(strip_function) *const functions[2][2][9] = {{EACH(64, 8), EACH(32, 8)}, {EACH(64, 16), EACH(32, 16)}};
    static KERNEL(strip_function) *const mxfp4[2] = {KERNEL(strip_mxfp4_8), KERNEL(strip_mxfp4_16)};
    const int64_t unit = matmul_unit(w), units = w->k / unit, stride = (units + 15) & ~(int64_t)15;
    const int many = r->count > 8, inputs = many ? 16 : 8;
    const strip_inputs x = many ? KERNEL(strip_pack)(w, q, runs, r, 16, scratch) : KERNEL(strip_pack)(w, q, runs, r, 8, scratch);
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) config.rows[i] = 16, config.row_bytes[i] = (uint16_t)(inputs * 4); // sums 0 to 3, codes 4 and 5, activations 6 and 7
    for (int i = 0; i < 2; i++) config.row_bytes[4 + i] = (uint16_t)unit, config.rows[6 + i] = (uint8_t)(unit / 4);
    __asm__ volatile("" : : "r"(&config) : "memory"); // the compiler does not know that it is read, all of it
    _tile_loadconfig(&config);
    strip_rows t;
    t.w = w, t.x = &x, t.r = r, t.from = from, t.to = to, t.units = units, t.stride = stride;
    t.scales = (float *)x.params + units * 2 * inputs, t.biases = t.scales + stride * STRIP_ROWS;
    (w->mode == MODE_MXFP4 ? mxfp4[many] : functions[many][w->group == 32][w->bits])(&t);
    _tile_release();
}

#undef TILE
#undef TILES
#undef NAME
#undef EACH
#pragma GCC pop_options
