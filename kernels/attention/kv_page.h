// How K or V of a cache is stored: Format of format.go for C, and where things lie in a page. The
// layouts are described in cache.go (plain) and quantized.go.
#pragma once
#include <stdint.h>

#define STRIP 16 // positions; stripTokens

// The byte of a lane that holds each of four positions of V: the pairs of 16 bits that even and odd
// bytes make are then neighbours.
#define V_BYTE_OF_POSITION {0, 2, 1, 3}

struct kv_format {
    int64_t dtype; // plain elements: headroom/kernels.DType
    int64_t bits;  // of a code; 0: plain elements
    int64_t group; // codes that share a scale, a power of two
    int64_t zero;  // the code of 0 where biases are not stored, else 0
};

// Asked for many times a tile: a division would take as long as dozens of products.
static inline int64_t kv_groups(const struct kv_format *f, int64_t head_dim) { return head_dim >> __builtin_ctzll((uint64_t)f->group); }

// Bytes of scales and biases at the start of a strip.
static inline int64_t kv_param_bytes(const struct kv_format *f, int64_t head_dim) { return (f->zero ? 2 : 4) * STRIP * kv_groups(f, head_dim); }

// Bytes of one position of a head.
static inline int64_t kv_row_bytes(const struct kv_format *f, int64_t head_dim) {
    if (!f->bits) return head_dim * (f->dtype == 0 ? 4 : 2);
    return head_dim * f->bits / 8 + kv_param_bytes(f, head_dim) / STRIP;
}
