// The functions that native_cgo.go calls. Strides are in elements.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A slot of a state tensor and its type: a kernels.DType, F32, BF16 or I8. state.go describes the
// layout.
typedef struct {
    int dtype;
    void *slot;
} headroom_state;

// One span of a convolution: x [rows, channels], weight [channels, taps] and bias [channels] or
// null. start is 1 if the span
// begins its sequence, and linear if no SiLU follows the convolution.
typedef struct {
    const float *x, *weight, *bias;
    ptrdiff_t x_stride;
    int64_t rows, channels;
    int taps, start, linear;
    headroom_state state;
} headroom_conv_span;

// Computes channels [from, to) of a span and updates their state.
void headroom_conv(
    int isa, headroom_conv_span span, int64_t from, int64_t to, float *out, ptrdiff_t out_stride);

// Only updates the state of channels [from, to).
void headroom_conv_update(int isa, headroom_conv_span span, int64_t from, int64_t to);

typedef struct {
    int64_t hk, hv, dk, dv;
    float l2_eps; // added to the sum of squares of q and of k
} headroom_gated_delta;

// One span of tokens: a and b are [tokens, hv], a_log and dt_bias [hv]. q, k and v are conv.x, or
// the output of the convolution if conv.weight is not null.
typedef struct {
    headroom_conv_span conv;
    const float *a, *b, *a_log, *dt_bias;
    ptrdiff_t a_stride, b_stride;
} headroom_gated_delta_inputs;

// Computes units [from, to) of a span. Unit u is part u % parts of the value rows of key head u /
// parts, and a part has part_rows rows. If a key head has several parts, the convolution's state of
// its q and k is not updated, because each part reads it: call headroom_conv_update afterwards.
// scratch belongs to the calling thread and holds a window of tokens: [window, 2 * (dk rounded up
// to a multiple of 16) + 2 * dv + 3].
void headroom_gated_delta_run(int isa, headroom_gated_delta d, headroom_gated_delta_inputs in,
    headroom_state state, float *out, ptrdiff_t out_stride, int64_t window, int64_t parts,
    int64_t part_rows, int64_t from, int64_t to, float *scratch);

// Heads of `dim` rows of n columns. dt is clamped to [dt_min, dt_max].
typedef struct {
    int64_t heads, groups, dim, n;
    float dt_min, dt_max;
} headroom_ssm;

// One span of tokens: x [rows, heads * dim + 2 * groups * n], dt [rows, heads], and a_log, dt_bias
// and d [heads]. start is 1 if the span begins its sequence.
typedef struct {
    const float *x, *dt, *a_log, *dt_bias, *d;
    ptrdiff_t x_stride, dt_stride;
    int64_t rows;
    int start;
} headroom_ssm_span;

// Computes heads [from, to) of a span and updates their state.
void headroom_ssm_run(int isa, headroom_ssm s, headroom_ssm_span in, headroom_state state,
    float *out, ptrdiff_t out_stride, int64_t from, int64_t to);
