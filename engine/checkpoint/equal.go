package checkpoint

// Tensors of different types with the same values: a conversion may store the head of a model in
// another type than the embedding, which it equals.

import (
	"encoding/binary"
	"math"

	"headroom/engine/safetensors"
)

// floatOf returns the function that reads element i of a tensor of plain floats; nil: the type is
// another one.
func floatOf(d safetensors.DType) func(data []byte, i int) float32 {
	switch d {
	case safetensors.F32:
		return func(data []byte, i int) float32 {
			return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case safetensors.BF16:
		return func(data []byte, i int) float32 {
			return math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		}
	case safetensors.F16:
		return func(data []byte, i int) float32 {
			return float16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	}
	return nil
}

// dryEqualElements is how many elements are compared at both ends, if no model is built.
const dryEqualElements = dryEqualBytes / 4

// equalValues reports whether two tensors of the same shape and of different types have the same
// values. For a dry run it compares their ends.
func equalValues(a, b safetensors.Tensor, dry bool) bool {
	x, y := floatOf(a.DType), floatOf(b.DType)
	if x == nil || y == nil {
		return false
	}
	n := int(a.Elements())
	for i := 0; i < n; i++ {
		if dry && i == dryEqualElements {
			i = max(i, n-dryEqualElements)
		}
		if x(a.Data, i) != y(b.Data, i) {
			return false
		}
	}
	return true
}
