// Finds the block with the largest logit of a row. Floats are compared as integers with the same
// order, so that compilers vectorize the loops. A maximum does not depend on the order of
// comparison.
#include <stdint.h>
#ifdef ISA

#define BLOCK 512 // argmaxBlock in argmax.go
#define INFINITE 0x7f800000

// Sets *block to the start of the first block that has the largest value of x [n], which are the
// bits of float32 values. Sets it to -1 if all values are -Inf, or if one is +Inf or NaN.
static void KERNEL(argmax_block)(const int32_t *x, int64_t n, int64_t *block) {
    const int32_t least = -INFINITE - 1; // key of -Inf
    int32_t peak = least;
    int64_t best = -1;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int32_t most = INT32_MIN, magnitude = 0;
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = at; i < at + count; i++) {
            const int32_t bits = x[i] == INT32_MIN ? 0 : x[i]; // -0 equals 0
            const int32_t key = bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1),
                          size = bits & INT32_MAX;
            most = key > most ? key : most;
            magnitude = size > magnitude ? size : magnitude;
        }
        if (magnitude > INFINITE || most == INFINITE) {
            *block = -1;
            return;
        }
        if (most > peak) peak = most, best = at;
    }
    *block = best;
}

#undef BLOCK
#undef INFINITE

#else

#define KERNEL_SOURCE "argmax.c"
#include "../common/foreach_isa.h"

int64_t headroom_argmax_block(int isa, const int32_t *x, int64_t n) {
    int64_t block = -1;
    DISPATCH(isa, argmax_block, (x, n, &block));
    return block;
}

#endif
