#pragma once
#include <stddef.h>
#include <stdint.h>

// The shape of the operands and the scalar parameters.
struct norm_rope_shape {
    int64_t rows, pos; // batch rows of one sequence, and the position of the first
    int64_t heads, head_dim, half; // half = R/2
    int64_t x_stride, out_stride;  // between heads, in floats
    int64_t pos_step, pos_scales;  // pos_scales is the number of factors, 0 for none
    int64_t interleaved;           // 1 if dimensions 2i and 2i+1 of x are a pair
    float eps, scale;
};

// Normalizes and rotates the rows. weight may be null. pos_scale has a factor for each pos_step
// positions. scratch has 2*half + 2*head_dim floats.
void headroom_norm_rope(int isa, const struct norm_rope_shape *s, const float *x,
    const float *weight, const float *inv_freq, const float *pos_scale, float *out, float *scratch);
