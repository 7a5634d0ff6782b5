// Writes keys and values into the pages of one sequence: K pages are [KVH][D][P], V pages [KVH][P][D].
#include "kv_append.h"
#ifdef ISA

#include "kv_format.h"

static void KERNEL(kv_append)(const struct kv_append_shape *s, const float *k, const float *v, void *k_pages, void *v_pages, const int32_t *pages) {
    const int64_t d = s->head_dim, p = s->page_tokens, bytes = kv_element_bytes((int)s->dtype);
    for (int64_t h = 0; h < s->kv_heads; h++) { // one head's page stays in the first-level cache while its columns fill
        for (int64_t r = 0; r < s->rows; r++) {
            int64_t pos = s->pos + r, at = pos % p, head = (pages[pos / p] * s->kv_heads + h) * d * p;
            const float *kr = k + r * s->k_stride + h * d, *vr = v + r * s->v_stride + h * d;
            for (int64_t i = 0; i < d; i += 16) {
                unsigned char column[64];
                kv_store((int)s->dtype, (char *)v_pages + (head + at * d + i) * bytes, v_load(vr + i));
                kv_store((int)s->dtype, column, v_load(kr + i));
                char *to = (char *)k_pages + (head + i * p + at) * bytes;
                if (bytes == 2)
                    for (int j = 0; j < 16; j++) memcpy(to + j * p * 2, column + 2 * j, 2);
                else
                    for (int j = 0; j < 16; j++) memcpy(to + j * p * 4, column + 4 * j, 4);
            }
        }
    }
}

#else

#define KERNEL_SOURCE "kv_append.c"
#include "foreach_isa.h"

void headroom_kv_append(int isa, const struct kv_append_shape *s, const float *k, const float *v, void *k_pages, void *v_pages, const int32_t *pages) {
    DISPATCH(isa, kv_append, (s, k, v, k_pages, v_pages, pages));
}

#endif
