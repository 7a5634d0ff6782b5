package attention

// Encodings of cached keys and values and their sizes. quantized.go describes the layout of codes
// in memory.

import (
	"fmt"

	"headroom/kernels"
)

// Kind is the encoding of the elements of keys or values.
type Kind uint8

// The kinds. The zero value is Float.
const (
	Float Kind = iota // plain elements of Format.DType
	// Affine is MLX's encoding: codes of Format.Bits bits with a scale and a bias per group,
	// element = code*scale + bias.
	Affine
	Q8_0 // ggml's blocks of 32 signed bytes with a scale, element = code*scale
	Q4_0 // ggml's blocks of 32 nibbles with a scale, element = (code-8)*scale
)

// Format is the encoding of K or of V. The zero value is float32. Groups run along the head
// dimension of one position, so the stored bytes of a token depend only on that token, and not on
// batches, chunks or neighbours.
//
// Scales and biases are float16. MLX stores them in the type of the activations, often bfloat16,
// whose 8 bits of precision give a bias an error of up to 1/512: half a step of an 8-bit code.
type Format struct {
	Kind  Kind
	DType kernels.DType // Float: F32, F16 or BF16
	Bits  int           // Affine: 2, 3, 4, 5, 6 or 8
	Group int           // Affine: 32, 64 or 128, dividing the head dimension
}

// FloatFormat returns the format of plain elements of dtype.
func FloatFormat(dtype kernels.DType) Format { return Format{DType: dtype} }

// String names the format, for example "f16", "4-bit g32" or "q8_0".
func (f Format) String() string {
	switch f.Kind {
	case Affine:
		return fmt.Sprintf("%d-bit g%d", f.Bits, f.Group)
	case Q8_0:
		return "q8_0"
	case Q4_0:
		return "q4_0"
	}
	switch f.DType {
	case kernels.F16:
		return "f16"
	case kernels.BF16:
		return "bf16"
	case kernels.F32:
		return "f32"
	}
	return f.DType.String()
}

// Check returns an error unless f is a valid format for heads of headDim dimensions.
func (f Format) Check(headDim int) error {
	if f.Kind == Float {
		switch f.DType {
		case kernels.F32, kernels.F16, kernels.BF16:
			return nil
		}
		return fmt.Errorf("cache: got %s, expected float32, float16 or bfloat16", f.DType)
	}
	if f.Kind > Q4_0 {
		return fmt.Errorf("cache: got kind %d, expected Float, Affine, Q8_0 or Q4_0", f.Kind)
	}
	if f.Kind == Affine {
		switch f.Bits {
		case 2, 3, 4, 5, 6, 8:
		default:
			return fmt.Errorf("cache: got %d bits, expected 2, 3, 4, 5, 6 or 8", f.Bits)
		}
		switch f.Group {
		case 32, 64, 128:
		default:
			return fmt.Errorf("cache: got groups of %d, expected 32, 64 or 128", f.Group)
		}
	}
	if headDim%f.group() != 0 {
		return fmt.Errorf(
			"cache: got %s for heads of %d dimensions, expected a multiple of the group size %d", f,
			headDim, f.group())
	}
	return nil
}

// RowBytes returns the size of one position of one head, including its scales and biases.
func (f Format) RowBytes(headDim int) int {
	if f.Kind == Float {
		return headDim * f.DType.Size()
	}
	return headDim*f.bits()/8 + f.params()*2*headDim/f.group()
}

func (f Format) quantized() bool { return f.Kind != Float }

// bits returns the width of a code, 0 for plain elements.
func (f Format) bits() int {
	switch f.Kind {
	case Affine:
		return f.Bits
	case Q8_0:
		return 8
	case Q4_0:
		return 4
	}
	return 0
}

// minGroup is the smallest group size of any format.
const minGroup = 32

// group returns the number of elements that share a scale.
func (f Format) group() int {
	if f.Kind == Affine {
		return f.Group
	}
	return minGroup
}

// zero returns the code of the value 0 for formats where it is fixed and no bias is stored, since
// the bias is -zero*scale. It is 0 for Affine.
func (f Format) zero() int {
	switch f.Kind {
	case Q8_0:
		return 128
	case Q4_0:
		return 8
	}
	return 0
}

// params returns the number of float16 values that a group has besides its codes.
func (f Format) params() int {
	if f.Kind == Affine {
		return 2
	}
	return 1
}
