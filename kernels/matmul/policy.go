package matmul

import "headroom/kernels/cpu"

// policy is how an instruction set multiplies packed weights. policy.h has the values, and says how
// they were chosen.
type policy struct {
	unpackedRows int // up to so many rows of activations are multiplied without packing
	panelSplit   int // packing.split of 4-bit codes
	streams      int // rows of a weight that are read side by side
}

// policyOf returns the policy of an instruction set, zero for cpu.Generic.
func policyOf(isa cpu.ISA) policy { return policies[isa] }
