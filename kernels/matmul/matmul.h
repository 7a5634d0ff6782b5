// The types and functions that Go and the kernels share. Operators check the arguments, and C does
// not check them again.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define MATMUL_CHUNK 64     // elements of a row of activations that share a scale
#define MATMUL_PARAMS 8     // scales and sums per padded chunk of a rounded row (input.go)
// A rounded row of activations has its codes twice (input.go). Rows follow each other with a gap,
// because loads of lines that are a multiple of 2 or 4 KB apart wait for each other.
#define MATMUL_ROW_GAP 128
#define MATMUL_PACK_ROWS 16 // rows of activations in a block (int8_pack.h, split.c)

// What split.c multiplies at a time: elements of a step, rows of activations, and panels of 32 rows
// of a weight. Its scratch memory holds a part of a panel and the sums of all these.
#define MATMUL_SPLIT_STEP 32
#define MATMUL_SPLIT_ROWS 512
#define MATMUL_SPLIT_PANELS 8
#define MATMUL_SPLIT_BYTES ((32 << 10) + MATMUL_SPLIT_ROWS * MATMUL_SPLIT_PANELS * 32 * 4)

// How an instruction set multiplies packed weights (policy.h).
struct matmul_policy {
    int64_t unpacked_rows; // the largest number of rows of activations that need no packing
    int64_t panel_split;   // PANEL_SPLIT
    int64_t streams;       // WEIGHT_STREAMS
    int64_t slice4_rows;   // MAX_SLICE4_ROWS
};

// How rows of activations are packed into blocks (int8_pack.h).
struct matmul_packing {
    int64_t unit;  // elements whose products add up to one integer
    int64_t sums;  // offset of the sums that the weight's biases multiply, in padded chunks
    int64_t split; // 0: elements in order; else SPLIT_CHUNKS
};

// One product: rows [from, to) of a weight with `count` rows of activations.
struct matmul_shape {
    int64_t k, mode, bits, group; // of the weight; mode is a kernels.Mode
    int64_t dtype;                // of elements where bits is 0, else of affine scales and biases
    int64_t data_stride, scales_stride, biases_stride; // bytes
    int64_t from, to;
    int64_t count, per_input;     // as in matmul_rows
    int64_t x_stride, out_stride; // elements
    int64_t tile_rows;            // rows of the weight for which `tile` has room, unpacked
    struct matmul_packing packing;
};

// One weight, from its first row. Strides are in bytes.
typedef struct {
    const uint8_t *data, *scales, *biases;
    ptrdiff_t data_stride, scales_stride, biases_stride;
    int64_t k;
    int mode, bits, group, dtype;
} matmul_weight;

// Rows of the output: list[i] or, without a list, i, for i in [0, count). Output row r is computed
// from input row r/per_input.
typedef struct {
    const int32_t *list;
    int64_t count, per_input;
    float *out;
    ptrdiff_t out_stride; // elements
} matmul_rows;

// Scratch for a tile of unpacked weight rows.
typedef struct {
    void *memory;
    int64_t rows;
} matmul_tile;

// Returns the number of elements whose products add up to one integer.
static inline int64_t matmul_unit(const matmul_weight *w) { return w->group == 32 ? 32 : 64; }

// Returns the number of chunks of a row of k elements, rounded up to whole vectors of sixteen
// scales.
static inline int64_t matmul_padded_chunks(int64_t k) {
    return ((k + MATMUL_CHUNK - 1) / MATMUL_CHUNK + 15) & ~(int64_t)15;
}

// Returns the bytes from the codes of a rounded row to those of the next one.
static inline int64_t matmul_row_bytes(int64_t k) {
    return matmul_padded_chunks(k) * 2 * MATMUL_CHUNK + MATMUL_ROW_GAP;
}

static inline int64_t matmul_out_row(const matmul_rows *r, int64_t i) {
    return r->list ? r->list[i] : i;
}

// Returns the weight without its first `row` rows.
static inline matmul_weight matmul_weight_from(const matmul_weight *w, int64_t row) {
    matmul_weight from = *w;
    from.data += row * w->data_stride;
    if (w->bits) {
        from.scales += row * w->scales_stride;
        if (w->biases) from.biases += row * w->biases_stride;
    }
    return from;
}

// Go calls these.

void headroom_matmul_policy(int isa, struct matmul_policy *p);

// Rounds rows of activations to 8 bits (round.c).
void headroom_matmul_round(int isa, const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k,
                           int8_t *q, float *params);

// Packs blocks [from, to) of `count` rounded rows of width k.
void headroom_matmul_pack(const struct matmul_packing *p, int64_t k, int64_t count, int64_t from,
                          int64_t to, const int8_t *q, const float *params, void *packed);

// Multiplies activations with a weight. If q is null, the activations are the floats x. Otherwise
// they are the rounded rows q, whose scales and sums are in params. If these rows are already
// packed, `packed` holds them in blocks. If `room` is not null, the rows in `list` are packed there
// first.
void headroom_matmul(int isa, const struct matmul_shape *s, const void *data, const void *scales,
                     const void *biases, const float *x, const int8_t *q, const float *params,
                     const void *packed, void *room, const int32_t *list, float *out, void *tile);

// Products of floats that are split into two bfloat16 (split.c). They need AMX.
int headroom_matmul_has_split(void);
void headroom_matmul_split_pack(const float *x, ptrdiff_t x_stride, int64_t rows, int64_t k,
                                int64_t from, int64_t to, void *packed);
void headroom_matmul_split(const struct matmul_shape *s, const void *data, const void *packed,
                           float *out, void *scratch);

// out = silu(gate) * out (gate.c).
void headroom_matmul_gate(int isa, const float *gate, ptrdiff_t gate_stride, float *out,
                          ptrdiff_t out_stride, int64_t cols, int64_t block_cols, int64_t from,
                          int64_t to);

// The two multiplying kernels.
void matmul_int8(int isa, const matmul_weight *w, int64_t from, int64_t to, const int8_t *q,
                 const float *params, const void *packed, const matmul_rows *r, void *scratch);
void matmul_float(int isa, const matmul_weight *w, int64_t from, int64_t to, const float *x,
                  ptrdiff_t x_stride, const matmul_rows *r, const matmul_tile *tile);
