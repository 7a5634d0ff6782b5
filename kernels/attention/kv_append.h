#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kv_page.h"

// The shape of the rows to append and of the cache.
struct kv_append_shape {
    struct kv_format k, v;
    int64_t kv_heads, head_dim, page_tokens;
    int64_t rows, pos;            // rows of one sequence, and the position of the first
    int64_t first_head, end_head; // the heads to write
    int64_t k_stride, v_stride;
};

// Appends the rows k and v. v is null if the cache has no V.
void headroom_kv_append(int isa, const struct kv_append_shape *s, const float *k, const float *v,
    void *k_pages, void *v_pages, const int32_t *pages);
