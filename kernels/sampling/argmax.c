// Where the largest logit of a row is, to within a block. Floats are compared as integers that are
// in the same order, which leaves loops that compilers make vectors of; the maximum of integers
// does not depend on the order they are compared in.
#include <stdint.h>
#ifdef ISA

#define BLOCK 512 // argmaxBlock in argmax.go
#define INFINITE 0x7f800000

// *block: where the first block of x [n], bits of float32, begins that has the largest value; -1 if
// there is none above minus infinity, or an infinite or undefined one.
static void KERNEL(argmax_block)(const int32_t *x, int64_t n, int64_t *block) {
    const int32_t least = -INFINITE - 1; // of minus infinity
    int32_t peak = least;
    int64_t best = -1;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int32_t most = INT32_MIN, magnitude = 0;
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = at; i < at + count; i++) {
            const int32_t bits = x[i] == INT32_MIN ? 0 : x[i]; // the two zeros are one value
            const int32_t key = bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1), size = bits & INT32_MAX;
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
#include "foreach_isa.h"

int64_t headroom_argmax_block(int isa, const int32_t *x, int64_t n) {
    int64_t block = -1;
    DISPATCH(isa, argmax_block, (x, n, &block));
    return block;
}

#endif
