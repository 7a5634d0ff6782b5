// The spans of a batch: the table that Context.Spans makes of kernels.Span.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Rows [row, row + rows) of the batch hold positions [pos, pos + rows) of one sequence.
struct Span {
  int row;
  int rows;
  int pos;
  int slot;  // slot of the sequence's recurrent state
};

// Returns the index of the span that holds a row of the batch, or count if none does. Spans are
// sorted by row.
inline int span_of(device const Span* spans, int count, int row) {
  int from = 0;
  int to = count;
  while (from < to) {  // if a span holds `row`, the span's index is in [from, to)
    const int middle = (from + to) / 2;
    if (row < spans[middle].row) {
      to = middle;
    } else if (row >= spans[middle].row + spans[middle].rows) {
      from = middle + 1;
    } else {
      return middle;
    }
  }
  return count;
}

// Returns the slot that gets the state after a row of the batch, or -1. The table follows the spans
// if states are kept inside them.
inline int slot_after(device const Span* spans, uint count, int row) {
  return ((device const int*)(spans + count))[row];
}
