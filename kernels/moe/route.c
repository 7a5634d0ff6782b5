// Computes the scores of a token's experts, a softmax or the sigmoids of their logits, then the k
// best experts in descending order, the lower expert first among equals. The largest score of each
// block of 16 is kept, so a choice looks at E/16 maxima and one block.
#include "route.h"

#include <float.h>

#ifdef ISA

#define MAX_EXPERTS 512
#define LEAST_SCORE -1e38f // of an expert, also in place of NaN
#define NO_SCORE -2e38f    // of what is no expert, is in no chosen group, or has been chosen
#define MAX_GROUPS 32

// Replaces logits by probabilities. Only the first n have a meaning.
static void KERNEL(softmax)(float *p, int n) {
    int blocks = (n + 15) / 16;
    f32x16 largest = v_load(p);
    for (int b = 1; b < blocks; b++) largest = v_max(largest, v_load(p + 16 * b));
    f32x16 top = v_set1(v_hmax(largest)), sums = v_zero();
    for (int b = 0; b < blocks; b++) {
        int rest = n - 16 * b < 16 ? n - 16 * b : 16;
        v_store(p + 16 * b, v_exp(v_sub(v_load(p + 16 * b), top)));
        sums = v_add(sums, v_load_n(p + 16 * b, rest));
    }
    f32x16 sum = v_set1(v_sum(sums));
    for (int b = 0; b < blocks; b++) v_store(p + 16 * b, v_div(v_load(p + 16 * b), sum));
}

// Writes p plus bias, unless it is NULL, to score.
static void KERNEL(correct)(const float *p, float *score, const float *bias, int n) {
    for (int i = 0; i < n; i++) {
        float x = bias ? p[i] + bias[i] : p[i];
        score[i] = x > LEAST_SCORE ? x : LEAST_SCORE;
    }
}

// Gives NO_SCORE to the experts outside the best groups. route.go says what is best.
static void KERNEL(limit)(float *score, const headroom_route_inputs *in) {
    const int groups = (int)in->groups, size = (int)in->experts / groups;
    float best[MAX_GROUPS];
    char chosen[MAX_GROUPS] = {0};
    for (int g = 0; g < groups; g++) {
        float first = NO_SCORE, second = NO_SCORE;
        for (int i = g * size; i < (g + 1) * size; i++) {
            float x = score[i];
            float lower = x > first ? first : x;
            second = lower > second ? lower : second;
            first = x > first ? x : first;
        }
        best[g] = in->sigmoid ? first + second : first;
    }
    for (int j = 0; j < in->top_groups; j++) {
        int top = 0;
        for (int g = 1; g < groups; g++)
            if (best[g] > best[top]) top = g;
        chosen[top] = 1;
        best[top] = -FLT_MAX;
    }
    for (int g = 0; g < groups; g++)
        for (int i = g * size; i < (g + 1) * size && !chosen[g]; i++) score[i] = NO_SCORE;
}

static void KERNEL(route)(const headroom_route_inputs *in, int32_t *ids, float *weights,
                          int64_t rows) {
    const float *logits = in->logits;
    const int n = (int)in->experts, k = (int)in->k, blocks = (n + 15) / 16;
    float p[MAX_EXPERTS], other[MAX_EXPERTS], block_max[MAX_EXPERTS / 16];
    float *score = in->sigmoid || in->bias ? other : p;
    for (int64_t r = 0; r < rows; r++, logits += in->logits_stride, ids += k, weights += k) {
        for (int b = 0; b < blocks; b++) { // the last block is padded with the first logit
            int rest = n - 16 * b < 16 ? n - 16 * b : 16;
            v_store(p + 16 * b, v_set1(logits[0]));
            v_store_n(p + 16 * b, v_load_n(logits + 16 * b, rest), rest);
        }
        if (!in->sigmoid) KERNEL(softmax)(p, n);
        else
            for (int i = 0; i < n; i += 16) v_store(p + i, v_sigmoid(v_load(p + i)));
        if (score != p) KERNEL(correct)(p, score, in->bias, n);
        if (in->groups) KERNEL(limit)(score, in);
        for (int i = n; i < 16 * blocks; i++) score[i] = NO_SCORE;
        for (int b = 0; b < blocks; b++) block_max[b] = v_hmax(v_load(score + 16 * b));
        float chosen = 0;
        for (int j = 0; j < k; j++) {
            int block = 0, lane = 0;
            for (int b = 1; b < blocks; b++)
                if (block_max[b] > block_max[block]) block = b;
            float *q = score + 16 * block;
            int last = 16 * block + 16 <= n ? 15 : n - 16 * block - 1;
            while (lane < last && q[lane] != block_max[block]) lane++; // stops at last for a NaN
            ids[j] = 16 * block + lane;
            weights[j] = p[ids[j]];
            chosen += weights[j];
            q[lane] = NO_SCORE;
            block_max[block] = v_hmax(v_load(q));
        }
        if (in->normalize)
            for (int j = 0; j < k; j++) weights[j] /= chosen + in->epsilon;
        if (in->scale)
            for (int j = 0; j < k; j++) weights[j] *= in->scale[ids[j]];
    }
}

#else

#define KERNEL_SOURCE "route.c"
#include "../common/foreach_isa.h"

void headroom_route(int isa, headroom_route_inputs in, int32_t *ids, float *weights,
                    int64_t rows) {
    DISPATCH(isa, route, (&in, ids, weights, rows));
}

#endif
