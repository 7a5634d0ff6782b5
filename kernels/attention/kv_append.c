// Writes keys and values into the pages of one sequence. Plain K pages are [KVH][D][P], plain V
// pages [KVH][P][D]. quantized.go describes quantized pages and the rules of quantization.
//
// Groups are quantized in batches of sixteen across heads and positions. Finding a scale is a long
// chain of dependent reductions, divisions and roundings, and in a batch these chains overlap.
#include "kv_append.h"
#ifdef ISA

#include "kv_format.h"
#include "kv_quantize.h"

// Packs bits [shift, shift+width) of each of 32 codes of K into a plane of a bundle, four bytes per
// row of the plane.
#define pack_k KERNEL(pack_k)
SIMD void pack_k(const int width, const int shift, uint8_t *to, const uint8_t *codes) {
    const int per = 8 / width;
#pragma GCC unroll 8
    for (int i = 0; i < width; i++) {
        uint32_t lane = 0;
#pragma GCC unroll 8
        for (int j = 0; j < per; j++) {
            uint32_t four;
            memcpy(&four, codes + 4 * (i * per + j), 4);
            lane |= (four >> shift & 0x01010101u * ((1u << width) - 1)) << (j * width);
        }
        memcpy(to + i * 4 * STRIP, &lane, 4);
    }
}

// Does the same for V, with one byte per lane of the plane.
#define pack_v KERNEL(pack_v)
SIMD void pack_v(const int width, const int shift, uint8_t *to, const uint8_t *codes) {
    const int per = 8 / width, lanes = 4 * width;
    for (int i = 0; i < lanes; i++) {
        int byte = 0;
#pragma GCC unroll 8
        for (int j = 0; j < per; j++)
            byte |= (codes[i + j * lanes] >> shift & ((1 << width) - 1)) << (j * width);
        to[4 * i] = (uint8_t)byte;
    }
}

// Does the same for all four positions of a bundle of V. Their codes are MAX_GROUP bytes apart.
#define pack_v4 KERNEL(pack_v4)
SIMD void pack_v4(const int width, const int shift, uint8_t *to, const uint8_t *codes) {
    const int per = 8 / width, lanes = 4 * width;
    uint8_t bytes[4][32];
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < lanes; i++) {
            int byte = 0;
#pragma GCC unroll 8
            for (int j = 0; j < per; j++)
                byte |= (codes[n * MAX_GROUP + i + j * lanes] >> shift & ((1 << width) - 1))
                    << (j * width);
            bytes[n][i] = (uint8_t)byte;
        }
    for (int i = 0; i < lanes; i++) { // V_BYTE_OF_POSITION
        const uint32_t lane = bytes[0][i] | (uint32_t)bytes[2][i] << 8 |
            (uint32_t)bytes[1][i] << 16 | (uint32_t)bytes[3][i] << 24;
        memcpy(to + 4 * i, &lane, 4);
    }
}

#define PACK(pack, bits, to, per_bit, codes) \
    switch (bits) { \
    case 2: pack(2, 0, to, codes); break; \
    case 3: pack(2, 0, to, codes); pack(1, 2, (to) + 2 * (per_bit), codes); break; \
    case 4: pack(4, 0, to, codes); break; \
    case 5: pack(4, 0, to, codes); pack(1, 4, (to) + 4 * (per_bit), codes); break; \
    case 6: pack(4, 0, to, codes); pack(2, 4, (to) + 4 * (per_bit), codes); break; \
    default: pack(8, 0, to, codes); \
    }

// A group to write. For V it may be the same group of all four positions of a bundle.
#define append_group KERNEL(append_group)
struct append_group {
    uint8_t *params, *codes; // destination of the scale and the codes of its first position
    int positions;
};

// Groups that are quantized together.
#define append_batch KERNEL(append_batch)
struct append_batch {
    struct append_group groups[BATCH];
    const float *x[BATCH]; // the elements of each position of each group
    int n, elements;       // number of groups, and of entries of x
};

#define append_flush KERNEL(append_flush)
static void append_flush(
    const struct kv_format *f, const int keys, int64_t groups, struct append_batch *b) {
    uint8_t codes[BATCH * MAX_GROUP], *c = codes;
    uint16_t scales[BATCH], biases[BATCH];
    const int64_t bits = f->bits;
    quantize(f, b->elements, b->x, codes, scales, biases);
    for (int i = 0, at = 0; i < b->n; i++) {
        const struct append_group *g = b->groups + i;
        const int n = g->positions;
        for (int j = 0; j < n; j++) memcpy(g->params + 2 * j, scales + at + j, 2);
        if (!f->zero)
            for (int j = 0; j < n; j++)
                memcpy(g->params + 2 * (groups * STRIP + j), biases + at + j, 2);
        uint8_t *to = g->codes;
        for (int64_t j = 0; j < f->group; j += 32, to += 64 * bits)
            if (keys)
                PACK(pack_k, bits, to, 64, c + j)
            else if (n == 4)
                PACK(pack_v4, bits, to, 16, c + j)
            else
                PACK(pack_v, bits, to, 16, c + j)
        at += n;
        c += n * MAX_GROUP;
    }
    b->n = b->elements = 0;
}

// Writes rows into quantized pages. In x, rows are stride floats apart and heads head_dim floats.
// The outer loop is over heads, so that the page of a head stays in the L1 cache while its columns
// fill.
#define append_quantized KERNEL(append_quantized)
SIMD void append_quantized(const struct kv_append_shape *s, const struct kv_format *f,
    const int keys, const float *x, int64_t stride, uint8_t *pages, const int32_t *table) {
    static const int byte_of[4] = V_BYTE_OF_POSITION;
    const int64_t d = s->head_dim, p = s->page_tokens, groups = kv_groups(f, d);
    struct append_batch b;
    b.n = b.elements = 0;
    for (int64_t h = s->first_head; h < s->end_head; h++)
        for (int64_t r = 0, n; r < s->rows; r += n) {
            const int64_t at = (s->pos + r) % p, lane = at % STRIP;
            uint8_t *strip = pages +
                ((table[(s->pos + r) / p] * s->kv_heads + h) * p + at - lane) * kv_row_bytes(f, d);
            uint8_t *codes = strip + kv_param_bytes(f, d) +
                (keys ? 4 * lane : lane / 4 * 16 * f->bits + byte_of[lane % 4]);
            n = !keys && lane % 4 == 0 && s->rows - r >= 4 ? 4 : 1;
            for (int64_t g = 0; g < groups; g++) {
                if (b.elements + n > BATCH) append_flush(f, keys, groups, &b);
                b.groups[b.n++] = (struct append_group){
                    strip + 2 * (g * STRIP + lane), codes + g * f->group * 2 * f->bits, (int)n};
                for (int64_t i = 0; i < n; i++)
                    b.x[b.elements++] = x + h * d + (r + i) * stride + g * f->group;
            }
        }
    append_flush(f, keys, groups, &b);
}

// Writes a position of a head into a plain page, which is [D][P] for keys and [P][D] for values.
#define append_position KERNEL(append_position)
SIMD void append_position(const struct kv_format *f, const int keys, char *page, int64_t at,
    int64_t p, const float *x, int64_t d) {
    const int64_t bytes = kv_element_bytes((int)f->dtype);
    for (int64_t i = 0; i < d; i += 16) {
        unsigned char column[64];
        if (!keys) {
            kv_store((int)f->dtype, page + (at * d + i) * bytes, v_load(x + i));
            continue;
        }
        kv_store((int)f->dtype, column, v_load(x + i));
        char *to = page + (i * p + at) * bytes;
        if (bytes == 2)
            for (int j = 0; j < 16; j++) memcpy(to + j * p * 2, column + 2 * j, 2);
        else
            for (int j = 0; j < 16; j++) memcpy(to + j * p * 4, column + 4 * j, 4);
    }
}

// Writes rows into plain pages.
#define append_plain KERNEL(append_plain)
SIMD void append_plain(const struct kv_append_shape *s, const struct kv_format *f, const int keys,
    const float *x, int64_t stride, char *pages, const int32_t *table) {
    const int64_t d = s->head_dim, p = s->page_tokens;
    for (int64_t h = s->first_head; h < s->end_head; h++)
        for (int64_t r = 0; r < s->rows; r++) {
            const int64_t pos = s->pos + r;
            append_position(f, keys,
                pages + (table[pos / p] * s->kv_heads + h) * p * kv_row_bytes(f, d), pos % p, p,
                x + h * d + r * stride, d);
        }
}

#define append_rows KERNEL(append_rows)
SIMD void append_rows(const struct kv_append_shape *s, const struct kv_format *f, const int keys,
    const float *x, int64_t stride, void *pages, const int32_t *table) {
    if (f->bits)
        append_quantized(s, f, keys, x, stride, pages, table);
    else
        append_plain(s, f, keys, x, stride, pages, table);
}

static void KERNEL(kv_append)(const struct kv_append_shape *s, const float *k, const float *v,
    void *k_pages, void *v_pages, const int32_t *pages) {
    append_rows(s, &s->k, 1, k, s->k_stride, k_pages, pages);
    if (v) append_rows(s, &s->v, 0, v, s->v_stride, v_pages, pages);
}

#else

#define KERNEL_SOURCE "kv_append.c"
#include "../common/foreach_isa.h"

void headroom_kv_append(int isa, const struct kv_append_shape *s, const float *k, const float *v,
    void *k_pages, void *v_pages, const int32_t *pages) {
    DISPATCH(isa, kv_append, (s, k, v, k_pages, v_pages, pages));
}

#endif
