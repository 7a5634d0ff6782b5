package gpu

// Packed weights as kernels see them: common/weight.h reads what this file binds.

import (
	"fmt"
	"strings"

	"headroom/kernels"
)

// WeightBits is what weights may have: 0 bits are plain elements.
var WeightBits = []int{0, 2, 3, 4, 5, 6, 8}

// WeightDTypes is what plain elements, or the scales of codes of bits, may be. Those of MXFP4 are
// bytes.
func WeightDTypes(bits int) []kernels.DType {
	if bits == 4 {
		return []kernels.DType{kernels.F32, kernels.F16, kernels.BF16, kernels.U8}
	}
	return []kernels.DType{kernels.F32, kernels.F16, kernels.BF16}
}

// WeightSource is a source for weights of that many bits, the macro BITS in it: a model compiles
// only what it uses.
func WeightSource(name, text string, bits int) *Source {
	return &Source{Name: fmt.Sprintf("%s_%d-bit.metal", strings.TrimSuffix(name, ".metal"), bits),
		Text: fmt.Sprintf("#define BITS %d\n#line 1 %q\n%s", bits, name, text)}
}

// Matrix is an operand with the place of its rows: row r begins at element First + r*Stride of what
// is bound. GPUs bind memory at multiples of four bytes, and elements of two bytes may begin
// between them.
type Matrix struct {
	Operand
	First, Stride uint32
}

// ReadMatrix is Read for tensors of any element type that begin at any element. None stays none.
func ReadMatrix(t kernels.Tensor) Matrix {
	if t.IsNone() || t.Rows == 0 || t.Cols == 0 {
		return Matrix{Operand: Read(t)}
	}
	size := t.DType.Size()
	before := t.Offset % 4
	m := Matrix{First: uint32(before / size), Stride: uint32(t.Stride)}
	m.Operand = ReadBytes(t.Buffer, t.Offset-before, t.Offset+((t.Rows-1)*t.Stride+t.Cols)*size)
	return m
}

// Aligned tells whether every row of m, of elements of size bytes, begins at a multiple of bytes.
func (m Matrix) Aligned(size, bytes int) bool {
	return (m.from+int(m.First)*size)%bytes == 0 && int(m.Stride)*size%bytes == 0
}

// Weight is the operands of a packed weight, and what a kernel is made for.
type Weight struct {
	Data, Scales, Biases Matrix
	Bits                 int           // 0: plain
	DType                kernels.DType // of plain elements, or of scales and biases; U8 for MXFP4
	Group                uint32        // elements with the same scale; 0 for plain ones
	Aligned              bool          // vector loads of data are right
}

// ReadWeight binds w, all its experts.
func ReadWeight(w *kernels.Weight) Weight {
	g := Weight{Data: ReadMatrix(w.Data), Bits: w.Bits, DType: w.Data.DType}
	if w.Bits == 0 {
		g.Aligned = g.Data.Aligned(w.Data.DType.Size(), 16)
		return g
	}
	g.Scales, g.Biases = ReadMatrix(w.Scales), ReadMatrix(w.Biases)
	g.DType, g.Group = w.Scales.DType, uint32(w.Group)
	loads := map[bool]int{true: 16, false: 8}[w.Bits%4 == 0] // of the vectors that load_codes loads
	g.Aligned = g.Data.Aligned(4, loads)
	return g
}

// UnitsPerGroup is how many units of 32 elements share a scale; 1 for plain elements.
func (w Weight) UnitsPerGroup() uint32 { return max(w.Group/32, 1) }
