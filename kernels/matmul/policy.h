// How each instruction set multiplies: the thresholds and orders that kernels and Go share. Go
// reads them as struct matmul_policy (matmul.h). Included once per instruction set.
//
// MAX_FEW_ROWS          the most rows of activations for int8_few.h, which reads a weight by rows
// MAX_SLICE_ROWS        the most for int8_slice.h, which reads it in slices; 0: slices are not used
// MAX_SLICE_ROWS_AMX    MAX_SLICE_ROWS if the matrix unit multiplies panels
// MAX_SLICE4_ROWS       the most for int8_slice4.h, which multiplies codes of 4 bits; 0: it is not
//                       used. On a processor with a matrix unit it was not measured and is not
//                       used.
// WEIGHT_STREAMS        rows of a weight that are read in parallel. Intel processors prefetch each
//                       row within a page, and two rows give them more loads in flight. Four rows
//                       are no faster, and 7 % slower with four rows of activations. AMD Zen 3 is
//                       fastest with one.
// SPLIT_CHUNKS          rounded activations are stored in a second order for codes of 4 bits: the
//                       even elements of SPLIT_CHUNKS chunks of 64, then the odd ones (round.c)
// PANEL_SPLIT           SPLIT_CHUNKS if panels use that order, else 0
// FLOAT_WEIGHT_ROWS,    rows of a weight and of activations whose sums are in registers together
// FLOAT_INPUT_ROWS      (float.c)
#undef MAX_FEW_ROWS
#undef MAX_SLICE_ROWS
#undef MAX_SLICE_ROWS_AMX
#undef MAX_SLICE4_ROWS
#undef WEIGHT_STREAMS
#undef SPLIT_CHUNKS
#undef PANEL_SPLIT
#undef FLOAT_WEIGHT_ROWS
#undef FLOAT_INPUT_ROWS

#if ISA == ISA_AVX2
#define MAX_FEW_ROWS 4
#define MAX_SLICE_ROWS 0
#define MAX_SLICE_ROWS_AMX 0
#define MAX_SLICE4_ROWS 0
#define WEIGHT_STREAMS 1
#define SPLIT_CHUNKS 1
#define PANEL_SPLIT 1
#define FLOAT_WEIGHT_ROWS 2
#define FLOAT_INPUT_ROWS 2
#elif ISA == ISA_AVX512
#define MAX_FEW_ROWS 8
#define MAX_SLICE_ROWS 0
#define MAX_SLICE_ROWS_AMX 0
#define MAX_SLICE4_ROWS 0
#define WEIGHT_STREAMS 2
#define SPLIT_CHUNKS 2
#define PANEL_SPLIT 2
#define FLOAT_WEIGHT_ROWS 4
#define FLOAT_INPUT_ROWS 4
#elif ISA == ISA_VNNI
#define MAX_FEW_ROWS 4
#define MAX_SLICE_ROWS 16
#define MAX_SLICE4_ROWS 8
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
#define MAX_SLICE4_ROWS 0
#define WEIGHT_STREAMS 2
#define SPLIT_CHUNKS 1
#define PANEL_SPLIT 0
#define FLOAT_WEIGHT_ROWS 2
#define FLOAT_INPUT_ROWS 2
#endif
