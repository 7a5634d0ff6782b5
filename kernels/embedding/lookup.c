// One row of an embedding matrix in any format, dequantized to float32 and multiplied by a factor.
#ifdef ISA
#include "../common/affine.h"
#include "../common/mxfp4.h"
#include "../common/mxfp8.h"
#include "../common/nvfp4.h"
#include "../common/fp8.h"

static void KERNEL(embedding_row)(const uint8_t *data, const void *scales, const void *biases,
    int dtype, int mode, int bits, int group, int64_t k, float factor, float *out) {
    if (bits) { // k is a multiple of 32
        if (mode == MODE_MXFP4) mxfp4_row(data, scales, k, out);
        else if (mode == MODE_MXFP8) mxfp8_row(data, scales, k, out);
        else if (mode == MODE_NVFP4) nvfp4_row(data, scales, *(const float *)biases, k, out);
        else if (mode == MODE_FP8) fp8_row(data, scales, group, k, out);
        else affine_row(data, scales, biases, dtype, bits, group, k, out);
        if (factor != 1)
            for (int64_t at = 0; at < k; at += 16)
                v_store(out + at, v_mul(v_load(out + at), v_set1(factor)));
        return;
    }
    for (int64_t at = 0; at < k; at += 16)
        v_store_n(out + at, v_mul(v_load_param(data, dtype, at, k), v_set1(factor)),
            k - at < 16 ? (int)(k - at) : 16);
}

#undef E2M1_OFFSET

#else

#define KERNEL_USES_VNNI
#define KERNEL_SOURCE "lookup.c"
#include "../common/foreach_isa.h"

void headroom_embedding_row(int isa, const void *data, const void *scales, const void *biases,
    int dtype, int mode, int bits, int group, int64_t k, float factor, float *out) {
    DISPATCH(isa, embedding_row, (data, scales, biases, dtype, mode, bits, group, k, factor, out));
}

#endif
