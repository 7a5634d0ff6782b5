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

// The heads and the window of tokens under way. scratch is
//     keys  [hk, tokens, 2, padded]  normalized q and k of each key head, padded with zeros to a multiple of 16
//     gates [3, tokens, hv]          g, beta, then q.k of the value head's key head
typedef struct {
    int64_t hk, hv, dk, dv, padded, tokens;
    float *scratch;
} headroom_gated_delta;

// Fills scratch for tokens [from, to) of the window; qkv, a and b point at token from.
void headroom_gated_delta_prepare(int isa, headroom_gated_delta d, const float *qkv, ptrdiff_t qkv_stride, const float *a, ptrdiff_t a_stride,
                                  const float *b, ptrdiff_t b_stride, const float *a_log, const float *dt_bias, int64_t from, int64_t to);

// Passes tokens [first, end) of the window, all of one span, through units [from, to) of its state: unit u is up to unit_rows
// value rows of a head. v and out point at token first.
void headroom_gated_delta_update(int isa, headroom_gated_delta d, const float *v, ptrdiff_t v_stride, headroom_kept state, int start, float *out,
                                 ptrdiff_t out_stride, int64_t first, int64_t end, int64_t unit_rows, int64_t from, int64_t to);
