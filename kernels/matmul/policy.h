// How each instruction set multiplies: the thresholds and orders that kernels and Go share. Go
// reads them as struct matmul_policy (matmul.h). Included once per instruction set.
//
// MAX_FEW_ROWS          up to so many rows of activations, weights are read row by row (int8_few.h)
// MAX_SLICE_ROWS        up to so many, in slices (int8_slice.h); 0: there are none
// MAX_SLICE_ROWS_AMX    the same where the matrix unit multiplies panels
// WEIGHT_STREAMS        rows of a weight that are read side by side. Intel's processors prefetch
//                       each by themselves, within a page, and have more loads in flight with two.
//                       Four are no faster, and 7 % slower for four rows of activations. AMD's
//                       (Zen 3) read best in one.
// SPLIT_CHUNKS rounded activations are kept in a second order for codes of 4 bits: the even
//                       elements of so many chunks of 64, then their odd ones (round.c)
// PANEL_SPLIT           SPLIT_CHUNKS where panels take activations in that order, else 0
// FLOAT_WEIGHT_ROWS,    rows of a weight and of activations whose sums are in registers together
// FLOAT_INPUT_ROWS      (float.c)
#undef MAX_FEW_ROWS
#undef MAX_SLICE_ROWS
#undef MAX_SLICE_ROWS_AMX
#undef WEIGHT_STREAMS
#undef SPLIT_CHUNKS
#undef PANEL_SPLIT
#undef FLOAT_WEIGHT_ROWS
#undef FLOAT_INPUT_ROWS

#if ISA == ISA_AVX2
#define MAX_FEW_ROWS 4
#define MAX_SLICE_ROWS 0
#define MAX_SLICE_ROWS_AMX 0
#define WEIGHT_STREAMS 1
#define SPLIT_CHUNKS 1
#define PANEL_SPLIT 1
#define FLOAT_WEIGHT_ROWS 2
#define FLOAT_INPUT_ROWS 2
#elif ISA == ISA_AVX512
#define MAX_FEW_ROWS 8
#define MAX_SLICE_ROWS 0
#define MAX_SLICE_ROWS_AMX 0
#define WEIGHT_STREAMS 2
#define SPLIT_CHUNKS 2
#define PANEL_SPLIT 2
#define FLOAT_WEIGHT_ROWS 4
#define FLOAT_INPUT_ROWS 4
#elif ISA == ISA_VNNI
#define MAX_FEW_ROWS 4
#define MAX_SLICE_ROWS 16
#define MAX_SLICE_ROWS_AMX 12
#define WEIGHT_STREAMS 2
#define SPLIT_CHUNKS 2
#define PANEL_SPLIT 2
#define FLOAT_WEIGHT_ROWS 4
#define FLOAT_INPUT_ROWS 4
#else // NEON
#define MAX_FEW_ROWS 8
#define MAX_SLICE_ROWS 0
#define MAX_SLICE_ROWS_AMX 0
#define WEIGHT_STREAMS 2
#define SPLIT_CHUNKS 1
#define PANEL_SPLIT 0
#define FLOAT_WEIGHT_ROWS 2
#define FLOAT_INPUT_ROWS 2
#endif
