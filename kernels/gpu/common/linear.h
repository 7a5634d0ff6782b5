// Parameters of the matrix products in kernels/matmul: linear.metal for few rows, prefill.metal for
// many.
#pragma once

struct LinearParams {
  uint rows;              // rows of out
  uint n;                 // rows of each matrix, and columns of out
  uint k;
  uint x_stride;          // in elements, like all strides
  uint out_stride;
  // Elements before the first row of the weight, where the buffer cannot be bound at that row.
  uint data_first;
  uint data_stride;
  uint scales_first;
  uint scales_stride;
  uint biases_first;
  uint biases_stride;
  uint units_per_group;   // number of 32-element units per scale
  uint per_input;         // number of rows of out per row of x
  // 0 for a single matrix. Otherwise ids [rows / choices, choices] select each row's matrix.
  uint experts;
  // The dispatch has the matrices [first_expert, first_expert + some_experts), and leaves rows of
  // all others as they are. An id that no matrix has gives NaN.
  uint first_expert;
  uint some_experts;
  uint choices;
  uint ids_stride;
  uint up_data_first;     // offsets and strides of the gated product's second weight
  uint up_data_stride;
  uint up_scales_first;
  uint up_scales_stride;
  uint up_biases_first;
  uint up_biases_stride;
  // Parts that linear.metal splits a row of the weight into: 1, or 2 for few long rows.
  uint shards;
};
