// Loads and stores vectors of a recurrent state in its storage type. state.go does the same in
// plain Go, with the same bits. Included once per instruction set, so it has no include guard.

#include "vectors.h"

// Values of headroom/kernels.DType.
#define STATE_F32 0
#define STATE_BF16 2
#define STATE_I8 5

#define LARGEST_CODE 127.0f
#define LEAST_AMAX 1e-30f // keeps the reciprocal of the scale of a row of zeros finite

#define state_load KERNEL(state_load)
#define state_store KERNEL(state_store)

// Loads elements [i, i+n) of p as floats, n <= 16. All other lanes are zero. For int8 it returns
// the codes. dtype, the type of the state, must be a constant after inlining, here and below.
SIMD f32x16 state_load(const int dtype, const void *p, int64_t i, int n) {
    uint16_t halves[16] = {0};
    int8_t codes[16] = {0};
    switch (dtype) {
    case STATE_BF16:
        if (n == 16) return v_load_bf16((const uint16_t *)p + i);
        memcpy(halves, (const uint16_t *)p + i, (size_t)n * 2);
        return v_load_bf16(halves);
    case STATE_I8:
        if (n == 16) return v_load_i8((const int8_t *)p + i);
        memcpy(codes, (const int8_t *)p + i, (size_t)n);
        return v_load_i8(codes);
    }
    return n == 16 ? v_load((const float *)p + i) : v_load_n((const float *)p + i, n);
}

// Stores elements [i, i+n) of p. a must be rounded to the type already.
SIMD void state_store(const int dtype, void *p, int64_t i, int n, f32x16 a) {
    uint16_t halves[16];
    int8_t codes[16];
    switch (dtype) {
    case STATE_BF16:
        if (n == 16) {
            v_store_bf16((uint16_t *)p + i, a);
            return;
        }
        v_store_bf16(halves, a);
        memcpy((uint16_t *)p + i, halves, (size_t)n * 2);
        return;
    case STATE_I8:
        if (n == 16) {
            v_store_i8((int8_t *)p + i, a);
            return;
        }
        v_store_i8(codes, a);
        memcpy((int8_t *)p + i, codes, (size_t)n);
        return;
    }
    if (n == 16) v_store((float *)p + i, a);
    else v_store_n((float *)p + i, a, n);
}
