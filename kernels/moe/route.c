// Computes a softmax over a token's expert logits, then its k largest probabilities in descending
// order, the lower expert first among equals. The largest of each block of 16 is kept, so a choice
// looks at E/16 maxima and one block. scale has a factor for each expert's weight, or is NULL.
#ifdef ISA

#define MAX_EXPERTS 512

static void KERNEL(route)(const float *logits, ptrdiff_t logits_stride, int64_t experts, int64_t k,
                          int normalize, const float *scale, int32_t *ids, float *weights,
                          int64_t rows) {
    float p[MAX_EXPERTS], block_max[MAX_EXPERTS / 16];
    int blocks = (int)(experts + 15) / 16;
    for (int64_t r = 0; r < rows; r++, logits += logits_stride, ids += k, weights += k) {
        // The last block is padded with the first logit of the row, then with probabilities of -1.
        for (int b = 0; b < blocks; b++) {
            int n = experts - 16 * b < 16 ? (int)(experts - 16 * b) : 16;
            v_store(p + 16 * b, v_set1(logits[0]));
            v_store_n(p + 16 * b, v_load_n(logits + 16 * b, n), n);
        }
        f32x16 largest = v_load(p);
        for (int b = 1; b < blocks; b++) largest = v_max(largest, v_load(p + 16 * b));
        f32x16 top = v_set1(v_hmax(largest)), sums = v_zero();
        for (int b = 0; b < blocks; b++) {
            int n = experts - 16 * b < 16 ? (int)(experts - 16 * b) : 16;
            v_store(p + 16 * b, v_exp(v_sub(v_load(p + 16 * b), top)));
            sums = v_add(sums, v_load_n(p + 16 * b, n));
        }
        f32x16 sum = v_set1(v_sum(sums));
        for (int b = 0; b < blocks; b++) {
            f32x16 v = v_div(v_load(p + 16 * b), sum);
            v_store(p + 16 * b, v);
            if (16 * b + 16 > experts) {
                for (int64_t i = experts; i < 16 * b + 16; i++) p[i] = -1;
                v = v_load(p + 16 * b);
            }
            block_max[b] = v_hmax(v);
        }
        float chosen = 0;
        for (int64_t j = 0; j < k; j++) {
            int block = 0, lane = 0;
            for (int b = 1; b < blocks; b++)
                if (block_max[b] > block_max[block]) block = b;
            float *q = p + 16 * block;
            int last = 16 * block + 16 <= experts ? 15 : (int)(experts - 16 * block) - 1;
            while (lane < last && q[lane] != block_max[block]) lane++; // stops at last for a NaN
            ids[j] = 16 * block + lane;
            weights[j] = q[lane];
            chosen += q[lane];
            q[lane] = -1;
            block_max[block] = v_hmax(v_load(q));
        }
        if (normalize)
            for (int64_t j = 0; j < k; j++) weights[j] /= chosen;
        if (scale)
            for (int64_t j = 0; j < k; j++) weights[j] *= scale[ids[j]];
    }
}

#else

#define KERNEL_SOURCE "route.c"
#include "../common/foreach_isa.h"

void headroom_route(int isa, const float *logits, ptrdiff_t logits_stride, int64_t experts,
                    int64_t k, int normalize, const float *scale, int32_t *ids, float *weights,
                    int64_t rows) {
    DISPATCH(isa, route, (logits, logits_stride, experts, k, normalize, scale, ids, weights, rows));
}

#endif
