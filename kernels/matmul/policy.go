package matmul

import "headroom/kernels/cpu"

// policy is how an instruction set multiplies packed weights. policy.h has the values and how
// they were chosen.
type policy struct {
	unpackedRows int // the largest number of rows of activations that need no packing
	panelSplit   int // packing.split of 4-bit codes
	streams      int // rows of a weight that are read in parallel
	slice4Rows   int // the most rows of activations for which codes of 4 bits are read in order
}

// policyOf returns the policy of an instruction set, zero for cpu.Generic.
func policyOf(isa cpu.ISA) policy { return policies[isa] }
