// The parameters of products of activations and a weight (kernels/matmul): linear.metal for few
// rows, prefill.metal for many.
#pragma once

struct LinearParams {
  uint rows;              // of out
  uint n;
  uint k;
  uint x_stride;          // elements, as all strides
  uint out_stride;
  // elements before the weight's first row, where memory cannot be bound at it
  uint data_first;
  uint data_stride;
  uint scales_first;
  uint scales_stride;
  uint biases_first;
  uint biases_stride;
  uint units_per_group;   // units of 32 elements that share a scale
  uint per_input;         // rows of out that share a row of x
  // 0: one matrix for all rows; otherwise ids [rows / choices, choices] name each row's
  uint experts;
  uint choices;
  uint ids_stride;
  uint up_data_first;     // of the second weight of a gated product
  uint up_data_stride;
  uint up_scales_first;
  uint up_scales_stride;
  uint up_biases_first;
  uint up_biases_stride;
  // of a row of the weight, in linear.metal: 1, or 2 where there are few rows and long ones
  uint shards;
};
