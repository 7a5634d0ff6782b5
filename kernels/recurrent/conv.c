// Causal depthwise convolution of one span, then SiLU unless the span is linear:
//
//     out[r] = silu(sum over t of weight[t] * input[r - (taps-1) + t] + bias)
//
// Rows before the span come from the state, which is zeros at the start of a sequence. Rows before
// r are rounded to the type of the state. An element is one chain of fused multiply-adds from the
// oldest tap on, whether its inputs come from the span or from the state.
#include "recurrent.h"

#define MAX_TAPS 8
#define BLOCK 256 // channels at a time
#define GROUP 64  // channels that share a scale, as in state.go
// Rows to prefetch. Rows are too far apart for the hardware prefetcher.
#define AHEAD 4

#ifdef ISA

#include "state.h"

// Computes channels [0, n) of a block for one output row, n <= BLOCK. weight is [taps, BLOCK], and
// input points to the taps input rows. bias [n] may be null.
SIMD void KERNEL(conv_row)(const float *const *input, const float *weight, const float *bias,
    int taps, int linear, float *out, int n) {
    int c = 0;
    for (; c + 16 <= n; c += 16) {
        f32x16 sum = v_mul(v_load(input[0] + c), v_load(weight + c));
        for (int t = 1; t < taps; t++)
            sum = v_fma(v_load(input[t] + c), v_load(weight + t * BLOCK + c), sum);
        if (bias) sum = v_add(sum, v_load(bias + c));
        v_store(out + c, linear ? sum : v_silu(sum));
    }
    if (c < n) {
        f32x16 sum = v_mul(v_load_n(input[0] + c, n - c), v_load(weight + c));
        for (int t = 1; t < taps; t++)
            sum = v_fma(v_load_n(input[t] + c, n - c), v_load(weight + t * BLOCK + c), sum);
        if (bias) sum = v_add(sum, v_load_n(bias + c, n - c));
        v_store_n(out + c, linear ? sum : v_silu(sum), n - c);
    }
}

// The rows of a state [taps - 1, channels], without the channels before a block. values and scales
// point to row 0. scales is null unless the type is int8.
typedef struct {
    char *values;
    float *scales;
    int64_t channels, groups;
} KERNEL(conv_state);

SIMD KERNEL(conv_state)
    KERNEL(state_at)(const int dtype, void *slot, int past, int64_t channels, int64_t c) {
    int64_t groups = (channels + GROUP - 1) / GROUP;
    switch (dtype) {
    case STATE_BF16: return (KERNEL(conv_state)){(char *)slot + c * 2, NULL, channels, groups};
    case STATE_I8:
        return (KERNEL(conv_state)){
            (char *)slot + past * groups * 4 + c, (float *)slot + c / GROUP, channels, groups};
    }
    return (KERNEL(conv_state)){(char *)slot + c * 4, NULL, channels, groups};
}

// A row of a block, rounded: values, or for int8 codes and scales.
typedef struct {
    float values[BLOCK], scales[BLOCK / GROUP];
} KERNEL(rounded_row);

SIMD void KERNEL(rounded_row_load)(
    const int dtype, KERNEL(rounded_row) * row, float *values, KERNEL(conv_state) s, int t, int n) {
    if (dtype == STATE_I8)
        memcpy(row->scales, s.scales + t * s.groups, (size_t)((n + GROUP - 1) / GROUP) * 4);
    for (int c = 0; c < n; c += 16) {
        f32x16 x = state_load(dtype, s.values, t * s.channels + c, n - c < 16 ? n - c : 16);
        v_store(row->values + c, x);
        if (dtype == STATE_I8) v_store(values + c, v_mul(x, v_set1(row->scales[c / GROUP])));
    }
}

SIMD void KERNEL(rounded_row_store)(
    const int dtype, const KERNEL(rounded_row) * row, KERNEL(conv_state) s, int t, int n) {
    if (dtype == STATE_I8)
        memcpy(s.scales + t * s.groups, row->scales, (size_t)((n + GROUP - 1) / GROUP) * 4);
    for (int c = 0; c < n; c += 16)
        state_store(
            dtype, s.values, t * s.channels + c, n - c < 16 ? n - c : 16, v_load(row->values + c));
}

// Rounds the values x into `row`. For int8 it also stores the rounded values in `values`.
SIMD void KERNEL(rounded_row_round)(
    const int dtype, KERNEL(rounded_row) * row, float *values, const float *x, int n) {
    for (int from = 0; from < n; from += GROUP) {
        int to = n < from + GROUP ? n : from + GROUP;
        f32x16 amax = v_set1(LEAST_AMAX), inverse = v_zero(), scale = v_zero();
        if (dtype == STATE_I8) {
            for (int c = from; c < to; c += 16)
                amax = v_max(amax, v_abs(to - c < 16 ? v_load_n(x + c, to - c) : v_load(x + c)));
            amax = v_set1(v_hmax(amax));
            inverse = v_div(v_set1(LARGEST_CODE), amax), scale = v_div(amax, v_set1(LARGEST_CODE));
            v_store_n(row->scales + from / GROUP, scale, 1);
        }
        for (int c = from; c < to; c += 16) {
            f32x16 v = to - c < 16 ? v_load_n(x + c, to - c) : v_load(x + c);
            v = dtype == STATE_I8 ? v_round(v_mul(v, inverse)) : v_bf16(v);
            v_store(row->values + c, v);
            if (dtype == STATE_I8) v_store(values + c, v_mul(v, scale));
        }
    }
}

SIMD void KERNEL(transpose)(float *w, const float *weight, int taps, int n) {
    for (int c = 0; c < n; c++)
        for (int t = 0; t < taps; t++) w[t * BLOCK + c] = weight[c * taps + t];
}

// Prefetches the row AHEAD rows after this one. rows is the number of rows left in the span.
SIMD void KERNEL(ahead)(const float *x, ptrdiff_t x_stride, const float *out, ptrdiff_t out_stride,
    int64_t rows, int n) {
    if (rows > AHEAD)
        for (int c = 0; c < n; c += 16) {
            __builtin_prefetch(x + AHEAD * x_stride + c);
            __builtin_prefetch(out + AHEAD * out_stride + c, 1);
        }
}

// Returns a row of the span, or one of the rows before it.
SIMD const float *KERNEL(row_at)(
    const float *x, ptrdiff_t x_stride, const float *before, int64_t row, int past) {
    return row < 0 ? before + (row + past) * BLOCK : x + row * x_stride;
}

// Computes rows [from, to) of a span with a float32 state. If update is not zero, these must
// be the last rows of the span, and the state is updated. Rows of the span are read in place.
SIMD void KERNEL(conv_block)(const headroom_conv_span *span, const int taps, int64_t c, int n,
    KERNEL(conv_state) s, int64_t from, int64_t to, int update, float *out, ptrdiff_t out_stride) {
    float w[MAX_TAPS * BLOCK], before[(MAX_TAPS - 1) * BLOCK], *state = (float *)s.values;
    const float *x = span->x + c, *bias = span->bias ? span->bias + c : NULL;
    const int past = taps - 1;
    for (int64_t t = 0; t < past - from; t++) {
        if (span->start) memset(before + (from + t) * BLOCK, 0, (size_t)n * 4);
        else memcpy(before + (from + t) * BLOCK, state + (from + t) * s.channels, (size_t)n * 4);
    }
    KERNEL(transpose)(w, span->weight + c * taps, taps, n);
    const float *input[MAX_TAPS];
    for (int64_t r = from; r < to; r++, out += out_stride) {
        for (int t = 0; t < taps; t++)
            input[t] = KERNEL(row_at)(x, span->x_stride, before, r - past + t, past);
        KERNEL(ahead)(input[past], span->x_stride, out, out_stride, span->rows - r, n);
        KERNEL(conv_row)(input, w, bias, taps, span->linear, out, n);
    }
    for (int t = 0; t < past && update; t++)
        memcpy(state + t * s.channels,
            KERNEL(row_at)(x, span->x_stride, before, to - past + t, past), (size_t)n * 4);
}

// Does the same as conv_block for other types of state. The rows before the current one are stored,
// rounded, in a ring.
SIMD void KERNEL(conv_block_as)(const int dtype, const headroom_conv_span *span, const int taps,
    int64_t c, int n, KERNEL(conv_state) s, int64_t from, int64_t to, int update, float *out,
    ptrdiff_t out_stride) {
    float w[MAX_TAPS * BLOCK], values[MAX_TAPS - 1][BLOCK]; // values of int8 codes
    KERNEL(rounded_row) ring[MAX_TAPS - 1];
    const float *x = span->x + c, *bias = span->bias ? span->bias + c : NULL;
    const int past = taps - 1;
    for (int t = 0; t < past; t++) {
        int64_t row = from - past + t;
        if (row >= 0)
            KERNEL(rounded_row_round)(dtype, &ring[t], values[t], x + row * span->x_stride, n);
        else if (span->start)
            memset(&ring[t], 0, sizeof ring[t]), memset(values[t], 0, sizeof values[t]);
        else KERNEL(rounded_row_load)(dtype, &ring[t], values[t], s, (int)(row + past), n);
    }
    KERNEL(transpose)(w, span->weight + c * taps, taps, n);
    int oldest = 0;
    for (int64_t r = from; r < to;
        r++, out += out_stride, oldest = oldest + 1 == past ? 0 : oldest + 1) {
        const float *input[MAX_TAPS];
        for (int t = 0, i = oldest; t < past; t++, i = i + 1 == past ? 0 : i + 1)
            input[t] = dtype == STATE_I8 ? values[i] : ring[i].values;
        input[past] = x + r * span->x_stride;
        KERNEL(ahead)(input[past], span->x_stride, out, out_stride, span->rows - r, n);
        KERNEL(conv_row)(input, w, bias, taps, span->linear, out, n);
        KERNEL(rounded_row_round)(dtype, &ring[oldest], values[oldest], input[past], n);
    }
    for (int t = 0, i = oldest; t < past && update; t++, i = i + 1 == past ? 0 : i + 1)
        KERNEL(rounded_row_store)(dtype, &ring[i], s, t, n);
}

SIMD void KERNEL(conv_as)(const int dtype, const headroom_conv_span *span, int64_t c, int64_t to_c,
    int64_t from, int64_t to, int update, float *out, ptrdiff_t out_stride) {
    const int taps = span->taps;
    for (; c < to_c; c += BLOCK, out += BLOCK) {
        const int n = to_c - c < BLOCK ? (int)(to_c - c) : BLOCK;
        const KERNEL(conv_state)
            s = KERNEL(state_at)(dtype, span->state.slot, taps - 1, span->channels, c);
        if (dtype != STATE_F32 && taps == 4)
            KERNEL(conv_block_as)(dtype, span, 4, c, n, s, from, to, update, out, out_stride);
        else if (dtype != STATE_F32)
            KERNEL(conv_block_as)(dtype, span, taps, c, n, s, from, to, update, out, out_stride);
        else if (taps == 4) KERNEL(conv_block)(span, 4, c, n, s, from, to, update, out, out_stride);
        else KERNEL(conv_block)(span, taps, c, n, s, from, to, update, out, out_stride);
    }
}

// Computes channels [c, to_c) of rows [from, to). out points to the first of these elements.
// gated_delta.c calls it too.
void KERNEL(headroom_conv_rows)(const headroom_conv_span *span, int64_t c, int64_t to_c,
    int64_t from, int64_t to, int update, float *out, ptrdiff_t out_stride) {
    switch (span->state.dtype) {
    case STATE_BF16:
        KERNEL(conv_as)(STATE_BF16, span, c, to_c, from, to, update, out, out_stride);
        break;
    case STATE_I8:
        KERNEL(conv_as)(STATE_I8, span, c, to_c, from, to, update, out, out_stride);
        break;
    default: KERNEL(conv_as)(STATE_F32, span, c, to_c, from, to, update, out, out_stride);
    }
}

#else

#define KERNEL_SOURCE "conv.c"
#include "../common/foreach_isa.h"

void headroom_conv(
    int isa, headroom_conv_span span, int64_t c, int64_t to_c, float *out, ptrdiff_t out_stride) {
    DISPATCH(isa, headroom_conv_rows, (&span, c, to_c, 0, span.rows, 1, out + c, out_stride));
}

void headroom_conv_update(int isa, headroom_conv_span span, int64_t c, int64_t to_c) {
    DISPATCH(isa, headroom_conv_rows, (&span, c, to_c, span.rows, span.rows, 1, NULL, 0));
}

#endif
