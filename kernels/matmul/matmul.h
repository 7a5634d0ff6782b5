// What the two multiplying kernels take. The arguments are checked by the operators; C trusts them.
#pragma once
#include <stddef.h>
#include <stdint.h>

// One weight, from its first row. Strides are in bytes.
typedef struct {
    const uint8_t *data, *scales, *biases;
    ptrdiff_t data_stride, scales_stride, biases_stride;
    int64_t k;
    // mode: kernels.Mode; dtype: of the elements with bits 0, otherwise of affine scales and biases
    int mode, bits, group, dtype;
} matmul_weight;

// The rows of the output: list[i] or, without a list, i, for i in [0, count). Output row r takes
// input row r/per_input.
typedef struct {
    const int32_t *list;
    int64_t count, per_input;
    float *out;
    ptrdiff_t out_stride; // elements
} matmul_rows;

// Activations rounded to 8 bits have RUNS runs of so many floats beside them (input.go).
#define RUNS 8

// Elements of which the products add up to one integer.
static inline int64_t matmul_unit(const matmul_weight *w) { return w->group == 32 ? 32 : 64; }

// Scratch for a tile of weight rows, unpacked.
typedef struct {
    void *memory;
    int64_t rows;
} matmul_tile;

static inline int64_t matmul_out_row(const matmul_rows *r, int64_t i) { return r->list ? r->list[i] : i; }

// Kernels ask for packed weights this many bytes before they read them, a line per chunk: rows are
// short and lie in three streams, which hardware prefetchers follow badly. Asking for what lies
// behind the matrix does no harm.
#define AHEAD 4096

// The weight from its row `row` on.
static inline matmul_weight matmul_weight_from(const matmul_weight *w, int64_t row) {
    matmul_weight from = *w;
    from.data += row * w->data_stride;
    if (w->bits) {
        from.scales += row * w->scales_stride;
        if (w->biases) from.biases += row * w->biases_stride;
    }
    return from;
}
