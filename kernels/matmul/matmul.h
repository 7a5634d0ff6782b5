// What the two multiplying kernels take. The arguments are checked by the operators; C trusts them.
#pragma once
#include <stddef.h>
#include <stdint.h>

// One weight, from its first row. Strides are in bytes.
typedef struct {
    const uint8_t *data, *scales, *biases;
    ptrdiff_t data_stride, scales_stride, biases_stride;
    int64_t k;
    int bits, group, dtype; // dtype: of the elements with bits 0, otherwise of scales and biases
} matmul_weight;

// The rows of the output: list[i] or, without a list, i, for i in [0, count). Output row r takes input row r/per_input.
typedef struct {
    const int32_t *list;
    int64_t count, per_input;
    float *out;
    ptrdiff_t out_stride; // elements
} matmul_rows;

// Scratch for a tile of weight rows, unpacked.
typedef struct {
    void *memory;
    int64_t rows;
} matmul_tile;

static inline int64_t matmul_out_row(const matmul_rows *r, int64_t i) { return r->list ? r->list[i] : i; }

// Asks for the n rows that come some 4 kB after `row`. Rows are short and lie in three streams, which hardware prefetchers follow
// badly. Nothing from row `end` on: looking for unmapped memory takes time.
static inline void matmul_prefetch(const matmul_weight *w, int64_t row, int64_t n, int64_t end) {
    row += (4095 + w->data_stride) / w->data_stride;
    if (row + n > end) return;
    const uint8_t *p = w->data + row * w->data_stride;
    for (int64_t at = 0; at < n * w->data_stride; at += 64) __builtin_prefetch(p + at);
    if (!w->bits) return;
    for (int64_t at = 0; at < n * w->scales_stride; at += 64) {
        __builtin_prefetch(w->scales + row * w->scales_stride + at);
        __builtin_prefetch(w->biases + row * w->biases_stride + at);
    }
}

// The weight from its row `row` on.
static inline matmul_weight matmul_weight_from(const matmul_weight *w, int64_t row) {
    matmul_weight from = *w;
    from.data += row * w->data_stride;
    if (w->bits) {
        from.scales += row * w->scales_stride;
        from.biases += row * w->biases_stride;
    }
    return from;
}
