#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kv_page.h"

// The same numbers stand in paged_attention.go.
#define TILE 64
#define SEGMENT 512

// A unit of work (units.go) without its memory: rows of one sequence, one KV head, the sinks if
// any, and segments [from, to).
struct attention_unit {
    struct kv_format k, v;
    struct kv_format start_k, start_v; // plain, of positions before start_tokens
    int64_t start_tokens;              // a multiple of SEGMENT; 0: none
    // bytes from where pages of the start count to where the others do
    int64_t k_offset, v_offset;
    int64_t kv_heads, head_dim, page_tokens;
    int64_t kv_head, group; // query heads kv_head*group + [0, group)
    int64_t rows, pos;      // query rows, and the position of the first
    int64_t window;         // 0: none
    int64_t sink_tokens;    // first positions that stay visible
    int64_t sinks;          // they are part of this unit
    int64_t exact;          // activations stay float32
    int64_t from, to;
    int64_t q_stride, out_stride;
    int64_t part_stride; // merging: floats between the partial records of consecutive segments
    float scale;
};

// q and out point at element [row 0, head kv_head*group], sinks (or null) at that head's. part is
// null, or takes the unit's records instead of out.
void headroom_attention(int isa, const struct attention_unit *u, const float *q, float *out, const float *sinks, const void *k_pages,
                        const void *v_pages, const int32_t *pages, float *scratch, float *part);

// Merges the records of the sinks, if any, and of segments [from, to), and writes out.
void headroom_attention_merge(int isa, const struct attention_unit *u, float *out, const float *sinks, const float *part, float *scratch);
