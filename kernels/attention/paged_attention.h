#pragma once
#include <stddef.h>
#include <stdint.h>
#include "kv_page.h"

// tileTokens and segmentTokens in paged_attention.go.
#define TILE 64
#define SEGMENT 512

// A unit of work (units.go) without its memory: rows of one sequence for one KV head, over segments
// [from, to) and, if sinks is set, over the sink tokens.
struct attention_unit {
    struct kv_format k, v; // v is k if the values are the first elements of the keys
    struct kv_format start_k, start_v; // plain formats of positions before start_tokens
    int64_t start_tokens;              // a multiple of SEGMENT, 0 for none
    int64_t k_offset, v_offset;        // offset of the pages after the Start, in bytes
    int64_t kv_heads, head_dim, page_tokens;
    int64_t value_dim; // of values, which are part of the keys if it is not head_dim
    int64_t kv_head, group; // query heads kv_head*group + [0, group)
    int64_t rows, pos;      // query rows, and the position of the first
    int64_t following, end; // positions after its own that a row sees, and the span's end
    int64_t window;         // 0 for none
    int64_t sink_tokens;    // first positions that stay visible
    int64_t sinks;          // 1 if the sink tokens are part of this unit
    int64_t exact;          // 1 if activations stay float32
    int64_t from, to;
    int64_t q_stride, out_stride;
    int64_t part_stride; // for merging: floats between the records of consecutive segments
    float scale;
    float cap; // of the scores, 0 for none
};

// Computes a unit. q and out point to row 0 and head kv_head*group. sinks points to the sink logit
// of that head, or is null. If part is not null it receives the unit's records, and out is not
// written.
void headroom_attention(int isa, const struct attention_unit *u, const float *q, float *out,
    const float *sinks, const void *k_pages, const void *v_pages, const int32_t *pages,
    float *scratch, float *part);

// Merges the records of the sink tokens, if any, and of segments [from, to), and writes out.
void headroom_attention_merge(int isa, const struct attention_unit *u, float *out,
    const float *sinks, const float *part, float *scratch);

// Computes the scores of all rows of a unit with the keys of segment u->from, as float32. If sums
// is null, it adds them to the records, which are the highest score and the sum of e^(score -
// highest score) of each vector. Otherwise the records have the highest score of all segments and
// the inverse of that sum over all segments, and the softmax weights are added to sums, which has
// SEGMENT floats. Scratch has room for a tile of keys, and for the query and a tile of scores of
// each vector.
void headroom_attention_observe(int isa, const struct attention_unit *u, const float *q,
    const void *k_pages, const int32_t *pages, float *scratch, float *records, float *sums);
