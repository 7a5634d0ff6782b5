// What native_cgo.go calls. Strides are in elements.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A slot of a state tensor and the form it is in: a kernels.DType, F32, BF16 or I8. state.go says
// how it is laid out.
typedef struct {
    int form;
    void *slot;
} headroom_kept;

// One span as a convolution has it: x [rows, channels], weight [channels, taps]; start means that
// the span begins its sequence.
typedef struct {
    const float *x, *weight;
    ptrdiff_t x_stride;
    int64_t rows, channels;
    int taps, start;
    headroom_kept state;
} headroom_conv_span;

// Convolves channels [from, to) of a span.
void headroom_conv(int isa, headroom_conv_span span, int64_t from, int64_t to, float *out, ptrdiff_t out_stride);

// What that does to the state, alone.
void headroom_conv_keep(int isa, headroom_conv_span span, int64_t from, int64_t to);

typedef struct {
    int64_t hk, hv, dk, dv;
} headroom_gated_delta;

// One span of tokens; a and b [tokens, hv], a_log and dt_bias [hv]. q, k and v are conv's x, or, if
// it has a weight, what it makes of x.
typedef struct {
    headroom_conv_span conv;
    const float *a, *b, *a_log, *dt_bias;
    ptrdiff_t a_stride, b_stride;
} headroom_gated_delta_inputs;

// Passes the tokens of a span through units [from, to) of its state: unit u is part u % parts of
// the value rows of key head u / parts, so many rows to a part. A convolution's state is left as it
// was for q and k of a key head of several parts, since each part needs it: headroom_conv_keep
// follows. scratch is the thread's own, for a window of tokens: [window, 2 * (dk as a multiple of
// 16) + 2 * dv + 3].
void headroom_gated_delta_run(int isa, headroom_gated_delta d, headroom_gated_delta_inputs in, headroom_kept state, float *out, ptrdiff_t out_stride,
                              int64_t window, int64_t parts, int64_t part_rows, int64_t from, int64_t to, float *scratch);
