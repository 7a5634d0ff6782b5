package ops

// Products with weights, as a device sees them that observes or changes them.

import (
	"headroom/kernels"
	"headroom/kernels/embedding"
	"headroom/kernels/matmul"
)

// Product is what an operator multiplies with weights. Changing a weight in place changes what the
// operator, which has not run yet, multiplies with.
type Product struct {
	X       kernels.Tensor     // [M, K], or [M*k, K] of experts; none of a lookup
	IDs     kernels.Tensor     // of experts: I32 [M, k], or none
	Weights []**kernels.Weight // all of them get X
	Lookup  bool               // rows of the weight are read, and nothing is multiplied
}

// ProductOf returns the product that op computes. ok is false if it is none.
func ProductOf(op kernels.Op) (p Product, ok bool) {
	switch op := op.(type) {
	case *matmul.Linear:
		return Product{X: op.X, Weights: weightsOf(op.Parts)}, true
	case *matmul.Experts:
		return Product{X: op.X, IDs: op.IDs, Weights: weightsOf(op.Parts)}, true
	case *matmul.GateUp:
		return Product{X: op.X, IDs: op.IDs, Weights: []**kernels.Weight{&op.Gate, &op.Up}}, true
	case *embedding.Lookup:
		return Product{Weights: []**kernels.Weight{&op.W}, Lookup: true}, true
	}
	return p, false
}

func weightsOf(parts []matmul.Part) (all []**kernels.Weight) {
	for i := range parts {
		all = append(all, &parts[i].W)
	}
	return all
}
