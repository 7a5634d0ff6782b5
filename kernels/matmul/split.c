// Multiplies weights of floats with activations on Intel's matrix unit (AMX), which multiplies
// pairs of bfloat16 and adds the products in float32. A float32 x is split into its head, x rounded
// to bfloat16, and its tail, the rest rounded to bfloat16. A product of two floats becomes three
// exact products, without tail * tail, which is at most 2^-18 of it:
//
//     x*w = head(x)*tail(w) + head(x)*head(w) + tail(x)*head(w)
//
// A weight in bfloat16 is its own head and has no tail. Rounding the tails adds an error of at most
// 2^-17. An infinite or NaN activation gives NaN.
//
// A step is 32 elements. For each of the three terms, in this order, even and odd elements of the
// step are added up apart by fused multiply-adds, and the sum of both is added to the output. So
// the bits of a row do not depend on the other rows. Intel 64 and IA-32 Architectures Software
// Developer's Manual, TDPBF16PS, has the arithmetic; numbers below 2^-126 count as 0.
//
// Steps are divided into parts (PART_STEPS). Activations are packed as
// [parts][blocks][steps of the part][head, tail][16 rows][32], a part of a panel of 32 rows of the
// weight as [steps of the part][heads, tails][2][16 pairs of elements][16 rows][2].
#ifdef ISA
#if ISA == ISA_VNNI
#include "../common/affine.h"
#include "../common/mxfp4.h"
#include "policy.h"
#include "lanes.h"

// GCC before 11 does not support AMX, and clang allows one set of targets for a function.
#if !defined(__clang__) && __GNUC__ >= 11
#define SPLIT_KERNELS
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16,avx512bf16")

#define TILE_BYTES 1024 // [16][32] in bfloat16, and [16][16] in float32

#define PART_STEPS 8
#define PART_ROWS MATMUL_SPLIT_ROWS
#define PART_PANELS MATMUL_SPLIT_PANELS
#define PANEL_BYTES (PART_STEPS * 4 * TILE_BYTES)

static int64_t split_steps(int64_t k) { return (k + STEP - 1) / STEP; }

// Splits 32 floats.
SIMD void split(f32x16 a, f32x16 b, lanes *head, lanes *tail) {
    lanes h = (lanes)_mm512_cvtne2ps_pbh(b, a);
    f32x16 ha = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(h)), 16));
    f32x16 hb = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(h, 1)), 16));
    *head = h;
    *tail = (lanes)_mm512_cvtne2ps_pbh(_mm512_sub_ps(b, hb), _mm512_sub_ps(a, ha));
}

// Packs blocks [from, to) of the rows of activations.
static void split_pack(const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k, int64_t from,
                       int64_t to, char *packed) {
    const int64_t steps = split_steps(k), blocks = (rows + PACK_ROWS - 1) / PACK_ROWS;
    for (int64_t row = from * PACK_ROWS; row < to * PACK_ROWS; row++) {
        const float *p = x + row * x_stride;
        for (int64_t s = 0; s < steps; s++) {
            lanes head = l_zero(), tail = l_zero();
            const int64_t at = s * STEP;
            if (row < rows && at + STEP <= k)
                split(v_load(p + at), v_load(p + at + 16), &head, &tail);
            else if (row < rows)
                split(v_load_param((const uint8_t *)p, DTYPE_F32, at, k),
                      v_load_param((const uint8_t *)p, DTYPE_F32, at + 16, k), &head, &tail);
            const int64_t first = s - s % PART_STEPS;
            const int64_t part = steps - first < PART_STEPS ? steps - first : PART_STEPS;
            char *out = packed + (first * blocks + row / PACK_ROWS * part + s % PART_STEPS) * 2 *
                                     TILE_BYTES + row % PACK_ROWS * sizeof(lanes);
            memcpy(out, &head, sizeof head);
            memcpy(out + TILE_BYTES, &tail, sizeof tail);
        }
    }
}

// Packs a step of sixteen rows of the weight, which begins at element `at`. Rows from `rows` on are
// zero.
SIMD void pack_step(const matmul_weight *w, const int dtype, int64_t row, int64_t rows, int64_t at,
                    char *panel) {
    lanes head[16], tail[16];
    for (int i = 0; i < 16; i++) {
        head[i] = tail[i] = l_zero();
        if (i >= rows) continue;
        const uint8_t *p = w->data + (row + i) * w->data_stride;
        if (dtype == DTYPE_BF16) {
            const int64_t left = w->k - at;
            head[i] = _mm512_maskz_loadu_epi16(left < STEP ? (1u << left) - 1 : ~0u, p + 2 * at);
        } else if (dtype == DTYPE_F32 && at + STEP <= w->k) {
            const float *f = (const float *)p + at;
            split(v_load(f), v_load(f + 16), &head[i], &tail[i]);
        } else {
            split(v_load_param(p, dtype, at, w->k), v_load_param(p, dtype, at + 16, w->k),
                  &head[i], &tail[i]);
        }
    }
    p_transpose(head);
    memcpy(panel, head, sizeof head);
    if (dtype == DTYPE_BF16) return;
    p_transpose(tail);
    memcpy(panel + 2 * TILE_BYTES, tail, sizeof tail);
}

SIMD void pack_steps(const matmul_weight *w, const int dtype, int64_t row, int64_t to, int64_t step,
                     int64_t steps, char *panel) {
    for (int64_t s = step; s < step + steps; s++) {
        for (int half = 0; half < 2; half++)
            pack_step(w, dtype, row + 16 * half, to - row - 16 * half, s * STEP,
                      panel + half * TILE_BYTES);
        panel += (dtype == DTYPE_BF16 ? 2 : 4) * TILE_BYTES;
    }
}

// Packs `steps` steps of the panel whose first row is `row`.
static void pack_panel(const matmul_weight *w, int64_t row, int64_t to, int64_t step, int64_t steps,
                       char *panel) {
    switch (w->dtype) {
    case DTYPE_F32: pack_steps(w, DTYPE_F32, row, to, step, steps, panel); break;
    case DTYPE_F16: pack_steps(w, DTYPE_F16, row, to, step, steps, panel); break;
    default: pack_steps(w, DTYPE_BF16, row, to, step, steps, panel);
    }
}

// Tiles: 0 to 3 are sums [2 blocks][2 halves of the panel], 4 and 5 activations of both blocks, 6
// and 7 halves of the panel.
static void configure(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 8; i++) config.rows[i] = 16, config.row_bytes[i] = 64;
    // The compiler does not know that the instruction reads all of config.
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

// A part of the activations, PART_ROWS rows of PART_STEPS steps, meets the same part of each panel.
// It is half a megabyte, so that the next part and the outputs of eight panels fit into a
// second-level cache of 2 MB beside it: the third level is several times slower than the products.
typedef struct {
    const char *x;          // its first block
    int64_t steps, rows;    // of the part
    int first, last;        // whether sums begin at zero, and whether they are complete after it
    // What to prefetch, eight lines in each step, two beside each other: of the next part, or of
    // the output.
    const char *ahead;
    int64_t ahead_stride;
} part;

// Adds the products of all steps to the sums of one or two blocks of the part.
SIMD void add_steps(part *p, const char *x, const int blocks, const char *panel, const int tails) {
    const int64_t next = p->steps * 2 * TILE_BYTES; // from one block to the other
    for (int64_t s = 0; s < p->steps; s++, x += 2 * TILE_BYTES) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, p->ahead += p->ahead_stride) {
            __builtin_prefetch(p->ahead, 1, 2);
            __builtin_prefetch(p->ahead + 64, 1, 2);
        }
        _tile_loadd(4, x, 64);
        if (blocks == 2) _tile_loadd(5, x + next, 64);
        if (tails) {
            _tile_loadd(6, panel + 2 * TILE_BYTES, 64);
            _tile_loadd(7, panel + 3 * TILE_BYTES, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            if (blocks == 2) {
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
        _tile_loadd(6, panel, 64);
        _tile_loadd(7, panel + TILE_BYTES, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(4, x + TILE_BYTES, 64);
        if (blocks == 2) {
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
            _tile_loadd(5, x + next + TILE_BYTES, 64);
        }
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (blocks == 2) {
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        panel += (tails ? 4 : 2) * TILE_BYTES;
    }
}

// Sums [2][2 halves][16][16] of two blocks are apart from the output until they are complete. Rows
// of an output are often a multiple of 4 KB apart, so that they share a set of the first-level
// cache; with sums there, products took three times as long.
SIMD void load_sums(const int blocks, const char *sums, int first) {
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + TILE_BYTES, 64);
    if (blocks < 2) return;
    _tile_loadd(2, sums + 2 * TILE_BYTES, 64);
    _tile_loadd(3, sums + 3 * TILE_BYTES, 64);
}

SIMD void store_sums(const int blocks, char *sums) {
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + TILE_BYTES, 64);
    if (blocks < 2) return;
    _tile_stored(2, sums + 2 * TILE_BYTES, 64);
    _tile_stored(3, sums + 3 * TILE_BYTES, 64);
}

SIMD void add_blocks(part *p, const char *x, const int blocks, const char *panel, int tails,
                     char *sums) {
    // The compiler does not know that tiles are loaded from memory and stored there.
    __asm__ volatile("" ::: "memory");
    load_sums(blocks, sums, p->first);
    if (tails) add_steps(p, x, blocks, panel, 1);
    else add_steps(p, x, blocks, panel, 0);
    store_sums(blocks, sums);
    __asm__ volatile("" ::: "memory");
}

// Copies the sums of two blocks, or fewer rows, to out [rows][columns].
static void copy_sums(const char *sums, int64_t rows, int64_t columns, float *out, int64_t stride) {
    for (int64_t i = 0; i < rows; i++, out += stride) {
        const float *row = (const float *)(sums + i / 16 * 2 * TILE_BYTES) + i % 16 * 16;
        const f32x16 a = v_load(row), b = v_load(row + TILE_BYTES / sizeof(float));
        if (columns == 32) {
            v_store(out, a), v_store(out + 16, b);
            continue;
        }
        v_store_n(out, a, columns < 16 ? (int)columns : 16);
        if (columns > 16) v_store_n(out + 16, b, (int)columns - 16);
    }
}

// Prefetches elements [at, at + count) of rows [row, row + rows) of the weight, if there are any
// before row `to`.
SIMD void prefetch_rows(const matmul_weight *w, int64_t row, int64_t rows, int64_t to, int64_t at,
                        int64_t count) {
    const int64_t size = w->dtype == DTYPE_F32 ? 4 : 2;
    for (; rows > 0 && row < to; rows--, row++)
        for (int64_t i = 0; i < count * size; i += 64)
            __builtin_prefetch(w->data + row * w->data_stride + at * size + i, 0, 2);
}

// Multiplies steps [step, step + p->steps) of rows [from, to) of the weight with a part.
static void multiply_part(part *p, const matmul_weight *w, int64_t from, int64_t to, int64_t step,
                          float *out, int64_t out_stride, char *scratch) {
    const int tails = w->dtype != DTYPE_BF16;
    const int64_t pairs = (p->rows + 2 * PACK_ROWS - 1) / (2 * PACK_ROWS);
    const int64_t each = (32 + pairs - 1) / pairs; // rows to prefetch beside a pair
    char *panel = scratch, *sums = scratch + PANEL_BYTES;
    for (int64_t n = from; n < to; n += 32) {
        pack_panel(w, n, to, step, p->steps, panel);
        for (int64_t m = 0; m < p->rows; m += 2 * PACK_ROWS, sums += 4 * TILE_BYTES) {
            const int64_t rows = p->rows - m < 2 * PACK_ROWS ? p->rows - m : 2 * PACK_ROWS;
            const char *x = p->x + m / PACK_ROWS * p->steps * 2 * TILE_BYTES;
            prefetch_rows(w, n + 32 + m / (2 * PACK_ROWS) * each, each, to, step * STEP,
                          p->steps * STEP);
            if (p->last) {
                p->ahead = (const char *)(out + m * out_stride + n);
                p->ahead_stride = out_stride * sizeof(float);
            }
            if (rows > PACK_ROWS) add_blocks(p, x, 2, panel, tails, sums);
            else add_blocks(p, x, 1, panel, tails, sums);
            if (p->last)
                copy_sums(sums, rows, to - n < 32 ? to - n : 32, out + m * out_stride + n,
                          out_stride);
        }
    }
}

static void split_rows(const matmul_weight *w, int64_t from, int64_t to, const char *packed,
                       int64_t rows, float *out, int64_t out_stride, char *scratch) {
    const int64_t steps = split_steps(w->k), blocks = (rows + PACK_ROWS - 1) / PACK_ROWS;
    configure();
    for (; from < to; from += PART_PANELS * 32) {
        const int64_t end = to - from < PART_PANELS * 32 ? to : from + PART_PANELS * 32;
        for (int64_t m = 0; m < rows; m += PART_ROWS) {
            for (int64_t s = 0; s < steps; s += PART_STEPS) {
                part p = {.steps = steps - s < PART_STEPS ? steps - s : PART_STEPS,
                          .rows = rows - m < PART_ROWS ? rows - m : PART_ROWS,
                          .first = s == 0,
                          .last = s + PART_STEPS >= steps};
                p.x = packed + (s * blocks + m / PACK_ROWS * p.steps) * 2 * TILE_BYTES;
                p.ahead = p.x + PART_STEPS * blocks * 2 * TILE_BYTES;
                p.ahead_stride = 128;
                multiply_part(&p, w, from, end, s, out + m * out_stride, out_stride, scratch);
            }
        }
    }
    _tile_release(); // otherwise every context switch saves the tiles
}

#pragma GCC pop_options
#endif
#endif
#undef E2M1_OFFSET

#else

#include "matmul.h"
#define STEP MATMUL_SPLIT_STEP
#define PACK_ROWS MATMUL_PACK_ROWS
#define KERNEL_USES_VNNI
#define KERNEL_SOURCE "split.c"
#include "../common/foreach_isa.h"

int headroom_matmul_has_split(void) {
#ifdef SPLIT_KERNELS
    return 1;
#else
    return 0;
#endif
}

void headroom_matmul_split_pack(const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k,
                                int64_t from, int64_t to, void *packed) {
#ifdef SPLIT_KERNELS
    split_pack(x, x_stride, rows, k, from, to, packed);
#endif
}

void headroom_matmul_split(const struct matmul_shape *s, const void *data, const void *packed,
                           float *out, void *scratch) {
#ifdef SPLIT_KERNELS
    const matmul_weight w = {
        .data = data, .data_stride = s->data_stride, .k = s->k, .dtype = (int)s->dtype};
    split_rows(&w, s->from, s->to, packed, s->count, out, s->out_stride, scratch);
#endif
}

#endif
