package matmul

import "headroom/kernels/gpu"

// The choices of this family. A row's sums have the same order in all of them.
var (
	rowsTogether = &gpu.Choice{Name: "matmul/rows of a threadgroup", Values: []int{1, 2, 4, 8},
		Untuned: "as many as there are, at most 8, rounded up to a power of two"}
	sharesX = &gpu.Choice{Name: "matmul/simdgroups share x", Values: []int{0, 1},
		Untuned: "1"}
)

// Choices returns how the kernels of this family may divide their work.
func Choices() []*gpu.Choice { return []*gpu.Choice{rowsTogether, sharesX} }

// shape returns a Shape of the product's sizes and format.
func (p *launch) shape(rows int) gpu.Shape {
	w := p.part.W
	gated := int32(0)
	if p.up != nil {
		gated = 1
	}
	return gpu.Shape{int32(w.N), int32(w.K), int32(w.Bits)<<16 | int32(w.Group),
		int32(w.Data.DType)<<8 | int32(w.Mode), int32(rows), int32(p.experts)<<1 | gated}
}
