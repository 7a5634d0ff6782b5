package gpu

// Packed weights as operands, which common/weight.h reads.

import (
	"fmt"
	"strings"

	"headroom/kernels"
)

// WeightBits are the numbers of bits that weights may have; 0 means plain elements.
var WeightBits = []int{0, 2, 3, 4, 5, 6, 8}

// WeightDTypes returns the types that plain elements (bits is 0), or the scales of codes with that
// many bits, may have; see Weight.DType.
func WeightDTypes(bits int) []kernels.DType {
	if bits == kernels.MXFP4.Bits() || bits == kernels.MXFP8.Bits() {
		return []kernels.DType{kernels.F32, kernels.F16, kernels.BF16, kernels.U8, kernels.E4M3}
	}
	return []kernels.DType{kernels.F32, kernels.F16, kernels.BF16}
}

// WeightSource returns a source for weights of that many bits, which the text reads as the macro
// BITS. A model compiles only the sources it uses.
func WeightSource(name, text string, bits int) *Source {
	return &Source{Name: fmt.Sprintf("%s_%d-bit.metal", strings.TrimSuffix(name, ".metal"), bits),
		Text: fmt.Sprintf("#define BITS %d\n#line 1 %q\n%s", bits, name, text)}
}

// Matrix is an operand whose row r begins at element First + r*Stride. First is needed because GPUs
// bind memory at multiples of four bytes, while elements of two bytes may begin in between.
// So First is at most 3, and Stride is one row: both fit in 32 bits whatever the size of the
// matrix. Kernels compute r*Stride in 64 bits.
type Matrix struct {
	Operand
	First, Stride uint32
}

// ReadMatrix returns a tensor of any element type, beginning at any element, as an operand that the
// kernel only reads. The zero Tensor binds nothing.
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

// Aligned reports whether every row of m begins at a multiple of the given number of bytes. size is
// the size of an element in bytes.
func (m Matrix) Aligned(size, bytes int) bool {
	return (m.from+int(m.First)*size)%bytes == 0 && int(m.Stride)*size%bytes == 0
}

// Weight holds the operands of a packed weight, and the properties that select a kernel.
type Weight struct {
	Data, Scales, Biases Matrix
	Bits                 int // 0 for plain elements
	// DType is that of plain elements, or of scales and biases; U8 in MXFP4 and MXFP8, and E4M3 in
	// NVFP4 and FP8 (kernels.ModeOf).
	DType   kernels.DType
	Group   uint32 // elements that share a scale; 0 for plain elements
	Aligned bool   // Data allows vector loads
}

// ReadWeight returns the operands of a range of w.
func ReadWeight(w *kernels.Weight, r Range) Weight {
	g := Weight{Data: ReadMatrix(r.of(w.Data, w.N)), Bits: w.Bits, DType: w.Data.DType}
	if w.Bits == 0 {
		g.Aligned = g.Data.Aligned(w.Data.DType.Size(), 16)
		return g
	}
	g.Scales, g.Biases = ReadMatrix(r.of(w.Scales, w.N)), ReadMatrix(r.of(w.Biases, w.N))
	g.DType, g.Group = w.Scales.DType, uint32(w.Group)
	if w.Mode == kernels.FP8 {
		g.DType = kernels.E4M3
	}
	// size of the vectors that load_codes loads
	loads := map[bool]int{true: 16, false: 8}[w.Bits%4 == 0]
	g.Aligned = g.Data.Aligned(4, loads)
	return g
}

// UnitsPerGroup returns the number of units of 32 elements that share a scale, 1 for plain
// elements.
func (w Weight) UnitsPerGroup() uint32 { return max(w.Group/32, 1) }
