// The function of route.c that native_cgo.go calls.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Logits [rows, experts], and bias and scale [experts], or NULL. The flags are 0 or 1. route.go
// says what they mean.
typedef struct {
    const float *logits, *bias, *scale;
    ptrdiff_t logits_stride;
    int64_t experts, k, groups, top_groups; // groups: 0 for none
    int sigmoid, normalize;
    float epsilon;
} headroom_route_inputs;

// Chooses k experts of each row: ids and weights are [rows, k].
void headroom_route(int isa, headroom_route_inputs in, int32_t *ids, float *weights, int64_t rows);
