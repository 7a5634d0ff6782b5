// What native_cgo.go calls. Strides are in elements.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A slot of a state tensor and the form it is in: a kernels.DType, F32, BF16 or I8. state.go says how it is laid out.
typedef struct {
    int form;
    void *slot;
} headroom_kept;

// Convolves channels [from, to) of one span of rows rows; start means that the span begins its sequence.
void headroom_conv(int isa, const float *x, ptrdiff_t x_stride, const float *weight, int taps, headroom_kept state, int64_t channels,
                   int start, float *out, ptrdiff_t out_stride, int64_t rows, int64_t from, int64_t to);

typedef struct {
    int64_t hk, hv, dk, dv;
} headroom_gated_delta;

// One span of tokens; a and b [tokens, hv], a_log and dt_bias [hv].
typedef struct {
    const float *qkv, *a, *b, *a_log, *dt_bias;
    ptrdiff_t qkv_stride, a_stride, b_stride;
    int64_t tokens;
} headroom_gated_delta_inputs;

// Passes the tokens of a span through units [from, to) of its state: unit u is part u % parts of the value rows of key head u / parts.
// scratch is the thread's own, for a window of tokens: [window, 2 * (dk as a multiple of 16) + 2 * dv + 3].
void headroom_gated_delta_run(int isa, headroom_gated_delta d, headroom_gated_delta_inputs in, headroom_kept state, int start, float *out,
                              ptrdiff_t out_stride, int64_t window, int64_t parts, int64_t from, int64_t to, float *scratch);
