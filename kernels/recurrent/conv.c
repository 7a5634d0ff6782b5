// Causal depthwise convolution of one span, then SiLU: out[r] = silu(sum over t of weight[t] * input[r - (taps-1) + t]), where
// rows before the span come from the state (zeros at the start of a sequence) and rows before r are rounded to its form. An element is one chain of fused multiply-adds
// from the oldest tap on, whatever memory its inputs come from.
#include "recurrent.h"

#define MAX_TAPS 8
#define BLOCK 256 // channels at a time
#define GROUP 64  // channels that share a scale, as in state.go
#define AHEAD 4   // rows to prefetch: rows lie far apart, so the processor does not see the pattern by itself

#ifdef ISA

#include "kept.h"

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

// Rows of a state [taps - 1, channels]: value row 0's first channel of a block, and its first scale where the form has scales.
typedef struct {
    char *values;
    float *scales;
    int64_t channels, groups;
} KERNEL(conv_state);

SIMD KERNEL(conv_state) KERNEL(state_at)(const int form, void *slot, int past, int64_t channels, int64_t c) {
    int64_t groups = (channels + GROUP - 1) / GROUP;
    switch (form) {
    case KEPT_BF16: return (KERNEL(conv_state)){(char *)slot + c * 2, NULL, channels, groups};
    case KEPT_I8: return (KERNEL(conv_state)){(char *)slot + past * groups * 4 + c, (float *)slot + c / GROUP, channels, groups};
    }
    return (KERNEL(conv_state)){(char *)slot + c * 4, NULL, channels, groups};
}

// A row of n channels as the form keeps it: its values or, for int8, codes with their scales.
typedef struct {
    float values[BLOCK], scales[BLOCK / GROUP];
} KERNEL(conv_kept);

SIMD void KERNEL(kept_row_load)(const int form, KERNEL(conv_kept) *row, float *values, KERNEL(conv_state) s, int t, int n) {
    if (form == KEPT_I8) memcpy(row->scales, s.scales + t * s.groups, (size_t)((n + GROUP - 1) / GROUP) * 4);
    for (int c = 0; c < n; c += 16) {
        f32x16 x = kept_load(form, s.values, t * s.channels + c, n - c < 16 ? n - c : 16);
        v_store(row->values + c, x);
        if (form == KEPT_I8) v_store(values + c, v_mul(x, v_set1(row->scales[c / GROUP])));
    }
}

SIMD void KERNEL(kept_row_store)(const int form, const KERNEL(conv_kept) *row, KERNEL(conv_state) s, int t, int n) {
    if (form == KEPT_I8) memcpy(s.scales + t * s.groups, row->scales, (size_t)((n + GROUP - 1) / GROUP) * 4);
    for (int c = 0; c < n; c += 16) kept_store(form, s.values, t * s.channels + c, n - c < 16 ? n - c : 16, v_load(row->values + c));
}

// Rounds a row x to the form: into row, and for int8 its values into values.
SIMD void KERNEL(kept_row_round)(const int form, KERNEL(conv_kept) *row, float *values, const float *x, int n) {
    for (int from = 0; from < n; from += GROUP) {
        int to = n < from + GROUP ? n : from + GROUP;
        f32x16 amax = v_set1(LEAST_AMAX), inverse = v_zero(), scale = v_zero();
        if (form == KEPT_I8) {
            for (int c = from; c < to; c += 16) amax = v_max(amax, v_abs(to - c < 16 ? v_load_n(x + c, to - c) : v_load(x + c)));
            amax = v_set1(v_hmax(amax));
            inverse = v_div(v_set1(LARGEST_CODE), amax), scale = v_div(amax, v_set1(LARGEST_CODE));
            v_store_n(row->scales + from / GROUP, scale, 1);
        }
        for (int c = from; c < to; c += 16) {
            f32x16 v = to - c < 16 ? v_load_n(x + c, to - c) : v_load(x + c);
            v = form == KEPT_I8 ? v_round(v_mul(v, inverse)) : v_bf16(v);
            v_store(row->values + c, v);
            if (form == KEPT_I8) v_store(values + c, v_mul(v, scale));
        }
    }
}

SIMD void KERNEL(transpose)(float *w, const float *weight, int taps, int n) {
    for (int c = 0; c < n; c++)
        for (int t = 0; t < taps; t++) w[t * BLOCK + c] = weight[c * taps + t];
}

SIMD void KERNEL(ahead)(const float *x, ptrdiff_t x_stride, const float *out, ptrdiff_t out_stride, int64_t r, int64_t rows, int n) {
    if (r + AHEAD < rows)
        for (int c = 0; c < n; c += 16) {
            __builtin_prefetch(x + (r + AHEAD) * x_stride + c);
            __builtin_prefetch(out + (r + AHEAD) * out_stride + c, 1);
        }
}

// A state in float32: rows of the span are read where they lie.
SIMD void KERNEL(conv_block)(const float *x, ptrdiff_t x_stride, const float *weight, int taps, KERNEL(conv_state) s, int start,
                             float *out, ptrdiff_t out_stride, int64_t rows, int n) {
    float w[MAX_TAPS * BLOCK], before[(MAX_TAPS - 1) * BLOCK], *state = (float *)s.values;
    int past = taps - 1;
    KERNEL(transpose)(w, weight, taps, n);
    for (int t = 0; t < past; t++) {
        if (start) memset(before + t * BLOCK, 0, (size_t)n * 4);
        else memcpy(before + t * BLOCK, state + t * s.channels, (size_t)n * 4);
    }
    const float *input[MAX_TAPS];
    for (int64_t r = 0; r < rows; r++) {
        for (int t = 0; t < taps; t++) {
            int64_t from = r - past + t;
            input[t] = from < 0 ? before + (from + past) * BLOCK : x + from * x_stride;
        }
        KERNEL(ahead)(x, x_stride, out, out_stride, r, rows, n);
        KERNEL(conv_row)(input, w, taps, out + r * out_stride, n);
    }
    for (int t = 0; t < past; t++) memcpy(state + t * s.channels, input[t + 1], (size_t)n * 4);
}

// Any other form: the rows before the current one are rounded, and go round in a ring.
SIMD void KERNEL(conv_block_as)(const int form, const float *x, ptrdiff_t x_stride, const float *weight, int taps, KERNEL(conv_state) s,
                                int start, float *out, ptrdiff_t out_stride, int64_t rows, int n) {
    float w[MAX_TAPS * BLOCK], values[MAX_TAPS - 1][BLOCK]; // what int8 codes mean
    KERNEL(conv_kept) ring[MAX_TAPS - 1];
    int past = taps - 1;
    KERNEL(transpose)(w, weight, taps, n);
    for (int t = 0; t < past; t++) {
        if (start) memset(&ring[t], 0, sizeof ring[t]), memset(values[t], 0, sizeof values[t]);
        else KERNEL(kept_row_load)(form, &ring[t], values[t], s, t, n);
    }
    int oldest = 0;
    for (int64_t r = 0; r < rows; r++, oldest = oldest + 1 == past ? 0 : oldest + 1) {
        const float *input[MAX_TAPS];
        for (int t = 0, i = oldest; t < past; t++, i = i + 1 == past ? 0 : i + 1) input[t] = form == KEPT_I8 ? values[i] : ring[i].values;
        input[past] = x + r * x_stride;
        KERNEL(ahead)(x, x_stride, out, out_stride, r, rows, n);
        KERNEL(conv_row)(input, w, taps, out + r * out_stride, n);
        KERNEL(kept_row_round)(form, &ring[oldest], values[oldest], input[past], n);
    }
    for (int t = 0, i = oldest; t < past; t++, i = i + 1 == past ? 0 : i + 1) KERNEL(kept_row_store)(form, &ring[i], s, t, n);
}

SIMD void KERNEL(conv_as)(const int form, const float *x, ptrdiff_t x_stride, const float *weight, int taps, void *slot, int64_t channels,
                          int start, float *out, ptrdiff_t out_stride, int64_t rows, int64_t from, int64_t to) {
    for (int64_t c = from; c < to; c += BLOCK) {
        int n = to - c < BLOCK ? (int)(to - c) : BLOCK;
        KERNEL(conv_state) s = KERNEL(state_at)(form, slot, taps - 1, channels, c);
        if (form != KEPT_F32 && taps == 4) KERNEL(conv_block_as)(form, x + c, x_stride, weight + c * 4, 4, s, start, out + c, out_stride, rows, n);
        else if (form != KEPT_F32) KERNEL(conv_block_as)(form, x + c, x_stride, weight + c * taps, taps, s, start, out + c, out_stride, rows, n);
        else if (taps == 4) KERNEL(conv_block)(x + c, x_stride, weight + c * 4, 4, s, start, out + c, out_stride, rows, n);
        else KERNEL(conv_block)(x + c, x_stride, weight + c * taps, taps, s, start, out + c, out_stride, rows, n);
    }
}

static void KERNEL(conv)(const float *x, ptrdiff_t x_stride, const float *weight, int taps, headroom_kept state, int64_t channels, int start,
                         float *out, ptrdiff_t out_stride, int64_t rows, int64_t from, int64_t to) {
    switch (state.form) {
    case KEPT_BF16: KERNEL(conv_as)(KEPT_BF16, x, x_stride, weight, taps, state.slot, channels, start, out, out_stride, rows, from, to); break;
    case KEPT_I8: KERNEL(conv_as)(KEPT_I8, x, x_stride, weight, taps, state.slot, channels, start, out, out_stride, rows, from, to); break;
    default: KERNEL(conv_as)(KEPT_F32, x, x_stride, weight, taps, state.slot, channels, start, out, out_stride, rows, from, to);
    }
}

#else

#define KERNEL_SOURCE "conv.c"
#include "foreach_isa.h"

void headroom_conv(int isa, const float *x, ptrdiff_t x_stride, const float *weight, int taps, headroom_kept state, int64_t channels,
                   int start, float *out, ptrdiff_t out_stride, int64_t rows, int64_t from, int64_t to) {
    DISPATCH(isa, conv, (x, x_stride, weight, taps, state, channels, start, out, out_stride, rows, from, to));
}

#endif
