// One row of an embedding matrix in any format, as float32.
#ifdef ISA
#include "affine.h"

static void KERNEL(embedding_row)(const uint8_t *data, const void *scales, const void *biases, int dtype, int bits, int group, int64_t k, float *out) {
    if (bits) { // k is a multiple of 32
        affine_row(data, scales, biases, dtype, bits, group, k, out);
        return;
    }
    for (int64_t at = 0; at < k; at += 16) v_store_n(out + at, v_load_param(data, dtype, at, k), k - at < 16 ? (int)(k - at) : 16);
}

#else

#define KERNEL_USES_VNNI
#define KERNEL_SOURCE "lookup.c"
#include "foreach_isa.h"

void headroom_embedding_row(int isa, const void *data, const void *scales, const void *biases, int dtype, int bits, int group, int64_t k, float *out) {
    DISPATCH(isa, embedding_row, (data, scales, biases, dtype, bits, group, k, out));
}

#endif
