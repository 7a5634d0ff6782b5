package gguf

// The types of tensors: a row for each.

import (
	"fmt"
	"maps"
	"slices"
)

// Type is the type of a tensor: that of its elements or of its blocks.
type Type uint32

// The types that can be read.
const (
	F32   Type = 0
	F16   Type = 1
	Q4_0  Type = 2
	Q4_1  Type = 3
	Q5_0  Type = 6
	Q5_1  Type = 7
	Q8_0  Type = 8
	Q4_K  Type = 12
	Q5_K  Type = 13
	Q6_K  Type = 14
	BF16  Type = 30
	MXFP4 Type = 39
)

// typeInfo is what is known of a type.
type typeInfo struct {
	name     string
	elements int // of a block
	bytes    int // of a block
	// decode writes the elements of a block; nil: the type cannot be read, for the reason why.
	decode func(to []float32, block []byte)
	why    string
	affine *affine // nil: its blocks are no groups of MLX's affine mode
}

// Why blocks of some types are not read.
const (
	codebook = "its codes are indices of tables of vectors, which MLX's formats do not have"
	few      = "it has 16 elements to a scale and less than 4 bits, which MLX's formats do not have"
	notFloat = "it is a type of integers or of intermediate results"
	ternary  = "its codes have three values, which MLX's formats do not have"
	fp4      = "it is read from originals in safetensors only"
)

var types = map[Type]typeInfo{
	F32:   {name: "F32", elements: 1, bytes: 4, decode: decodeF32},
	F16:   {name: "F16", elements: 1, bytes: 2, decode: decodeF16},
	BF16:  {name: "BF16", elements: 1, bytes: 2, decode: decodeBF16},
	Q4_0:  {name: "Q4_0", elements: 32, bytes: 18, decode: decodeQ40, affine: affineQ40},
	Q4_1:  {name: "Q4_1", elements: 32, bytes: 20, decode: decodeQ41, affine: affineQ41},
	Q5_0:  {name: "Q5_0", elements: 32, bytes: 22, decode: decodeQ50, affine: affineQ50},
	Q5_1:  {name: "Q5_1", elements: 32, bytes: 24, decode: decodeQ51, affine: affineQ51},
	Q8_0:  {name: "Q8_0", elements: 32, bytes: 34, decode: decodeQ80, affine: affineQ80},
	Q4_K:  {name: "Q4_K", elements: 256, bytes: 144, decode: decodeQ4K, affine: affineQ4K},
	Q5_K:  {name: "Q5_K", elements: 256, bytes: 176, decode: decodeQ5K, affine: affineQ5K},
	Q6_K:  {name: "Q6_K", elements: 256, bytes: 210, decode: decodeQ6K},
	MXFP4: {name: "MXFP4", elements: 32, bytes: 17, decode: decodeMXFP4},

	9:  {name: "Q8_1", elements: 32, bytes: 36, why: notFloat},
	10: {name: "Q2_K", elements: 256, bytes: 84, why: few},
	11: {name: "Q3_K", elements: 256, bytes: 110, why: few},
	15: {name: "Q8_K", elements: 256, bytes: 292, why: notFloat},
	16: {name: "IQ2_XXS", elements: 256, bytes: 66, why: codebook},
	17: {name: "IQ2_XS", elements: 256, bytes: 74, why: codebook},
	18: {name: "IQ3_XXS", elements: 256, bytes: 98, why: codebook},
	19: {name: "IQ1_S", elements: 256, bytes: 50, why: codebook},
	20: {name: "IQ4_NL", elements: 32, bytes: 18, why: codebook},
	21: {name: "IQ3_S", elements: 256, bytes: 110, why: codebook},
	22: {name: "IQ2_S", elements: 256, bytes: 82, why: codebook},
	23: {name: "IQ4_XS", elements: 256, bytes: 136, why: codebook},
	24: {name: "I8", elements: 1, bytes: 1, why: notFloat},
	25: {name: "I16", elements: 1, bytes: 2, why: notFloat},
	26: {name: "I32", elements: 1, bytes: 4, why: notFloat},
	27: {name: "I64", elements: 1, bytes: 8, why: notFloat},
	28: {name: "F64", elements: 1, bytes: 8, why: "no model has it"},
	29: {name: "IQ1_M", elements: 256, bytes: 56, why: codebook},
	34: {name: "TQ1_0", elements: 256, bytes: 54, why: ternary},
	35: {name: "TQ2_0", elements: 256, bytes: 66, why: ternary},
	40: {name: "NVFP4", elements: 64, bytes: 36, why: fp4},
	41: {name: "Q1_0", elements: 128, bytes: 18, why: ternary},
}

// String returns the name of the type, such as "Q4_K".
func (t Type) String() string {
	if info, ok := types[t]; ok {
		return info.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Readable reports whether Decode reads the type.
func (t Type) Readable() bool { return types[t].decode != nil }

// Plain reports whether the elements are floats of their own, not blocks.
func (t Type) Plain() bool { return types[t].elements == 1 && t.Readable() }

// Why says why the type is not readable; "": it is.
func (t Type) Why() string { return types[t].why }

// Bytes returns the size of n elements, a number of whole blocks.
func (t Type) Bytes(n int) int { return n / types[t].elements * types[t].bytes }

// Decode writes elements to dst, from whole blocks. Each has the bits that llama.cpp gives it: all
// products and sums are float32. It panics if the type is not readable.
func (t Type) Decode(dst []float32, blocks []byte) {
	info := types[t]
	for len(dst) > 0 {
		info.decode(dst[:info.elements], blocks[:info.bytes])
		dst, blocks = dst[info.elements:], blocks[info.bytes:]
	}
}

// ReadableNames returns the names of the types that can be read, in the order of their numbers.
func ReadableNames() (names []string) {
	for _, t := range slices.Sorted(maps.Keys(types)) {
		if t.Readable() {
			names = append(names, t.String())
		}
	}
	return names
}
