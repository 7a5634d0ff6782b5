// The products of kv_dot.h on Intel's matrix unit (AMX), for sixteen vectors at a time. It adds the
// same integers and does the same float32 operations, so the bits are the same. Included after
// kv_dot.h, for VNNI only.
//
// A bundle of 8-bit K is an operand of the unit as stored in the page: [dimensions/4][16
// positions][4]. Codes of fewer bits are unpacked to this layout once per tile for all vectors. V
// is unpacked to [positions/4][16 dimensions][4] with groups of four positions in the order of
// store_tile, where group q of strip s is row 4q+s. 16-bit weights are two operands, and the sum is
// 256 * high + low.
//
// Tile registers 0 and 1 hold sums [vectors][16]. Registers 2 and 3 hold queries and codes of K, 32
// dimensions at a time. Registers 4 and 5 hold queries or weights, and register 6 codes, 64 at a
// time. Configuring them takes as long as several products, so it is done once per unit of work.
// Rows past the last vector compute garbage, which is not read.

#define MATRIX_ROWS 16   // vectors at a time
#define MATRIX_MIN 5     // fewest vectors for which the unit pays off
#define MATRIX_GROUPS 8  // most groups of K
#define MATRIX_DIMS 256  // largest head dimension

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8")

// A compiler barrier: the compiler does not know that tile loads and the configuration read memory.
#define TILES_READ_MEMORY() __asm__ volatile("" ::: "memory")

// Configures the tile registers. The configuration lasts until amx_end.
static void KERNEL(amx_begin)(int64_t vectors) {
    static const uint8_t inner[8] = {64, 64, 32, 64, 64, 64, 64, 64}; // bytes per row
    static const uint8_t codes[8] = {0, 0, 0, 8, 0, 0, 16, 16};       // rows, 0: as many as vectors
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        config.rows[tile] = codes[tile] ? codes[tile]
                                        : (uint8_t)(vectors < MATRIX_ROWS ? vectors : MATRIX_ROWS);
        config.row_bytes[tile] = inner[tile];
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); // as TILES_READ_MEMORY, for a local variable
    _tile_loadconfig(&config);
}

// Releases the tile registers. Otherwise every context switch would save them.
static void KERNEL(amx_end)(void) { _tile_release(); }

// Returns the codes of a strip of K as an operand of the unit: the page's memory, or `room`, where
// they are unpacked.
SIMD const uint8_t *KERNEL(k_matrix_bits)(
    const int bits, const struct kv_format *f, const uint8_t *strip, int64_t d, uint8_t *room) {
    const uint8_t *p = strip + kv_param_bytes(f, d);
    if (bits == 8) return p;
    for (int64_t i = 0; i < d; i += 32)
#pragma GCC unroll 8
        for (int q = 0; q < 8; q++)
            _mm512_storeu_si512(room + (i + 4 * q) * STRIP, k_quad(bits, p + i * 2 * bits, q, 0));
    return room;
}
static const uint8_t *KERNEL(k_matrix)(
    const struct kv_format *f, const uint8_t *strip, int64_t d, uint8_t *room) {
    const uint8_t *codes = room;
#define CALL(bits) codes = KERNEL(k_matrix_bits)(bits, f, strip, d, room)
    EACH_BITS(f->bits, CALL)
#undef CALL
    return codes;
}

// Computes the dot products of sixteen vectors with a strip for each group. `groups` and `group`
// must be constants after inlining.
SIMD void KERNEL(k_sums)(const int64_t groups, const int64_t group, const uint8_t *codes,
    const uint8_t *k, int64_t d, __m512i (*sums)[MATRIX_ROWS]) {
#pragma GCC unroll 4
    for (int64_t g = 0; g < groups; g++) {
        const uint8_t *q = codes + g * group, *of_group = k + g * group * STRIP;
        _tile_zero(0);
        if (group == 32) {
            _tile_loadd(2, q, d);
            _tile_loadd(3, of_group, 64);
            _tile_dpbsud(0, 2, 3); // signed queries times unsigned codes
        } else {
#pragma GCC unroll 2
            for (int64_t i = 0; i < group; i += 64) {
                _tile_loadd(4, q + i, d);
                _tile_loadd(6, of_group + i * STRIP, 64);
                _tile_dpbsud(0, 4, 6);
            }
        }
        _tile_stored(0, sums[g], 64);
    }
}

// Computes the scores of `count` vectors for a strip from their dot products. `groups` must be a
// constant after inlining.
SIMD void KERNEL(k_fold)(const struct kv_format *f, const int64_t groups,
    const struct query_group *query, const uint8_t *strip, float *scores, int64_t count,
    const __m512i (*sums)[MATRIX_ROWS]) {
    f32x16 scale[MATRIX_GROUPS], bias[MATRIX_GROUPS];
#pragma GCC unroll 4
    for (int64_t g = 0; g < groups; g++) {
        scale[g] = kv_scale(strip, g);
        bias[g] = kv_bias(strip, g, groups, f->zero, scale[g]);
    }
    for (int64_t r = 0; r < count; r++, query += groups) {
        f32x16 score = v_zero();
#pragma GCC unroll 4
        for (int64_t g = 0; g < groups; g++) {
            score = v_fma(
                _mm512_cvtepi32_ps(sums[g][r]), v_mul(scale[g], v_set1(query[g].scale)), score);
            score = v_fma(bias[g], v_set1(query[g].sum), score);
        }
        v_store(scores + r * TILE, score);
    }
}

// Computes the scores of up to sixteen vectors for strips [from, to) of a tile, whose unpacked
// codes are k.
static void KERNEL(k_scores_matrix)(const struct kv_format *f, const uint8_t *codes,
    const struct query_group *query, const uint8_t *const *strips, const uint8_t *const *k,
    int64_t from, int64_t to, float *scores, int64_t count, int64_t d) {
    const int64_t groups = kv_groups(f, d);
    // For two strips: the unit multiplies one while the scores of the other are computed.
    __m512i sums[2][MATRIX_GROUPS][MATRIX_ROWS];
    TILES_READ_MEMORY();
#define CASE(n, group) \
    KERNEL(k_sums)(n, group, codes, k[from], d, sums[from % 2]); \
    for (int64_t s = from; s < to; s++) { \
        if (s + 1 < to) KERNEL(k_sums)(n, group, codes, k[s + 1], d, sums[(s + 1) % 2]); \
        KERNEL(k_fold)(f, n, query, strips[s], scores + s * STRIP, count, \
            (const __m512i(*)[MATRIX_ROWS])sums[s % 2]); \
    }
    if (groups == 2 && f->group == 64) {
        CASE(2, 64)
    } else if (groups == 4 && f->group == 64) {
        CASE(4, 64)
    } else {
        CASE(groups, f->group)
    }
#undef CASE
}

// Unpacks the codes of V for strips [from, to) of a tile, sixteen dimensions at a time. The weights
// of all other strips are zero, so their codes do not matter.
SIMD void KERNEL(v_matrix_bits)(const int bits, const struct kv_format *f,
    const uint8_t *const *strips, int64_t from, int64_t to, int64_t d, uint8_t (*out)[16][64]) {
    for (int64_t s = 0; s < TILE / STRIP; s++) {
        const uint8_t *p = strips[s < from || s >= to ? from : s] + kv_param_bytes(f, d);
        for (int64_t i = 0; i < d / 16; i += 2, p += 64 * bits)
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
                _mm512_storeu_si512(out[i][4 * q + s], v_quad(bits, p + 16 * bits * q, 0, 0));
                _mm512_storeu_si512(out[i + 1][4 * q + s], v_quad(bits, p + 16 * bits * q, 1, 0));
            }
    }
}
static void KERNEL(v_matrix)(const struct kv_format *f, const uint8_t *const *strips, int64_t from,
    int64_t to, int64_t d, uint8_t (*out)[16][64]){
#define CALL(bits) KERNEL(v_matrix_bits)(bits, f, strips, from, to, d, out)
    EACH_BITS(f -> bits, CALL)
#undef CALL
}

// Computes the products of the weights in tile registers 4 and 5 with sixteen dimensions of V.
SIMD void KERNEL(v_products)(const uint8_t (*v)[64], __m512i (*sums)[MATRIX_ROWS]) {
    _tile_loadd(6, v, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 5, 6);
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
}

SIMD void KERNEL(v_fold)(
    const __m512i (*in)[MATRIX_ROWS], const float *steps, float *sums, int64_t ldc, int64_t count) {
    for (int64_t r = 0; r < count; r++, sums += ldc) {
        const __m512i total = _mm512_add_epi32(_mm512_slli_epi32(in[0][r], 8), in[1][r]);
        v_store(sums, v_fma(_mm512_cvtepi32_ps(total), v_set1(steps[r]), v_load(sums)));
    }
}

// sums [count][dims] += weights V for up to sixteen vectors. v holds the operands of the
// dimensions, and dims is a multiple of 32.
static void KERNEL(v_values_matrix)(const uint8_t (*v)[16][64], int64_t dims,
    const uint8_t *weights, const float *steps, float *sums, int64_t ldc, int64_t count) {
    __m512i high_low[2][2][MATRIX_ROWS];
    TILES_READ_MEMORY();
    _tile_loadd(4, weights, TILE * WEIGHT_BYTES);
    _tile_loadd(5, weights + TILE, TILE * WEIGHT_BYTES);
    for (; dims > 0; dims -= 32, v += 2, sums += 32) {
        KERNEL(v_products)(v[0], high_low[0]);
        KERNEL(v_products)(v[1], high_low[1]); // runs while the previous sums are added
        KERNEL(v_fold)((const __m512i(*)[MATRIX_ROWS])high_low[0], steps, sums, ldc, count);
        KERNEL(v_fold)((const __m512i(*)[MATRIX_ROWS])high_low[1], steps, sums + 16, ldc, count);
    }
}

#pragma GCC pop_options
