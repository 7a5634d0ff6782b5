// Causal depthwise convolution of one span, then SiLU: out[r] = silu(sum over t of weight[t] * input[r - (taps-1) + t]), where
// rows before the span come from the state (zeros at the start of a sequence). An element is one chain of fused multiply-adds
// from the oldest tap on, whatever memory its inputs come from.
#include "recurrent.h"

#define MAX_TAPS 8
#define BLOCK 256 // channels at a time
#define AHEAD 4   // rows to prefetch: rows lie far apart, so the processor does not see the pattern by itself

#ifdef ISA

// Channels [0, n) of a block, n <= BLOCK: weight is [taps, BLOCK], input points at the taps rows that make one output row.
SIMD void KERNEL(conv_row)(const float *const *input, const float *weight, int taps, float *out, int n) {
    int c = 0;
    for (; c + 16 <= n; c += 16) {
        f32x16 sum = v_mul(v_load(input[0] + c), v_load(weight + c));
        for (int t = 1; t < taps; t++) sum = v_fma(v_load(input[t] + c), v_load(weight + t * BLOCK + c), sum);
        v_store(out + c, v_silu(sum));
    }
    if (c < n) {
        f32x16 sum = v_mul(v_load_n(input[0] + c, n - c), v_load(weight + c));
        for (int t = 1; t < taps; t++) sum = v_fma(v_load_n(input[t] + c, n - c), v_load(weight + t * BLOCK + c), sum);
        v_store_n(out + c, v_silu(sum), n - c);
    }
}

SIMD void KERNEL(conv_block)(const float *x, ptrdiff_t x_stride, const float *weight, int taps, float *state, int64_t channels, int start,
                             float *out, ptrdiff_t out_stride, int64_t rows, int n) {
    float w[MAX_TAPS * BLOCK], before[(MAX_TAPS - 1) * BLOCK];
    int past = taps - 1;
    for (int c = 0; c < n; c++)
        for (int t = 0; t < taps; t++) w[t * BLOCK + c] = weight[c * taps + t];
    for (int t = 0; t < past; t++) {
        if (start) memset(before + t * BLOCK, 0, (size_t)n * 4);
        else memcpy(before + t * BLOCK, state + t * channels, (size_t)n * 4);
    }
    const float *input[MAX_TAPS];
    for (int64_t r = 0; r < rows; r++) {
        for (int t = 0; t < taps; t++) {
            int64_t from = r - past + t;
            input[t] = from < 0 ? before + (from + past) * BLOCK : x + from * x_stride;
        }
        if (r + AHEAD < rows)
            for (int c = 0; c < n; c += 16) {
                __builtin_prefetch(x + (r + AHEAD) * x_stride + c);
                __builtin_prefetch(out + (r + AHEAD) * out_stride + c, 1);
            }
        KERNEL(conv_row)(input, w, taps, out + r * out_stride, n);
    }
    for (int t = 0; t < past; t++) memcpy(state + t * channels, input[t + 1], (size_t)n * 4);
}

static void KERNEL(conv)(const float *x, ptrdiff_t x_stride, const float *weight, int taps, float *state, int64_t channels, int start,
                         float *out, ptrdiff_t out_stride, int64_t rows, int64_t from, int64_t to) {
    for (int64_t c = from; c < to; c += BLOCK) {
        int n = to - c < BLOCK ? (int)(to - c) : BLOCK;
        if (taps == 4) KERNEL(conv_block)(x + c, x_stride, weight + c * 4, 4, state + c, channels, start, out + c, out_stride, rows, n);
        else KERNEL(conv_block)(x + c, x_stride, weight + c * taps, taps, state + c, channels, start, out + c, out_stride, rows, n);
    }
}

#else

#define KERNEL_SOURCE "conv.c"
#include "foreach_isa.h"

void headroom_conv(int isa, const float *x, ptrdiff_t x_stride, const float *weight, int taps, float *state, int64_t channels, int start,
                   float *out, ptrdiff_t out_stride, int64_t rows, int64_t from, int64_t to) {
    DISPATCH(isa, conv, (x, x_stride, weight, taps, state, channels, start, out, out_stride, rows, from, to));
}

#endif
