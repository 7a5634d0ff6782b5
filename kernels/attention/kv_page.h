// struct kv_format, the C form of Format in format.go, and sizes within a page. cache.go describes
// the layout of plain pages, quantized.go that of quantized ones.
#pragma once
#include <stdint.h>

#define STRIP 16 // positions of a strip: stripTokens in quantized.go

// The bytes of a lane of V that hold positions 0 to 3. The even bytes are positions 0 and 1, the
// odd bytes positions 2 and 3. Either, widened to 16 bits, is a pair of neighbours.
#define V_BYTE_OF_POSITION {0, 2, 1, 3}

// The format of K or V.
struct kv_format {
    int64_t dtype; // of plain elements: headroom/kernels.DType
    int64_t bits;  // width of a code, 0 for plain elements
    int64_t group; // number of codes that share a scale, a power of two
    int64_t zero;  // code of the value 0 if no biases are stored, else 0
};

// Returns the number of groups of a head. It is needed many times per tile, and a division would
// take as long as dozens of products.
static inline int64_t kv_groups(const struct kv_format *f, int64_t head_dim) {
    return head_dim >> __builtin_ctzll((uint64_t)f->group);
}

// Returns the size of the scales and biases at the start of a strip, in bytes.
static inline int64_t kv_param_bytes(const struct kv_format *f, int64_t head_dim) {
    return (f->zero ? 2 : 4) * STRIP * kv_groups(f, head_dim);
}

// Returns the size of one position of a head, in bytes.
static inline int64_t kv_row_bytes(const struct kv_format *f, int64_t head_dim) {
    if (!f->bits) return head_dim * (f->dtype == 0 ? 4 : 2);
    return head_dim * f->bits / 8 + kv_param_bytes(f, head_dim) / STRIP;
}
