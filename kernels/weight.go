package kernels

// Packed weights, checked against the promises that kernels rely on before they read a byte.

import "fmt"

// Weight is a matrix [N, K] of a checkpoint, or E of them stacked, in the packed form the file
// holds: weights are never expanded in memory. Outputs are y = x Wᵀ, one element per row of W.
//
// With Bits 0 the elements are plain (DType F32, F16 or BF16) and Data is [E*N, K]. Otherwise they
// are MLX codes: Data is uint32 [E*N, K*Bits/32], each row one little-endian LSB-first stream of
// Bits-wide codes, and Scales are [E*N, K/Group]. What a code stands for is its Mode's.
type Weight struct {
	Experts int // E, 1 for a plain matrix
	N, K    int
	Mode    Mode // of codes
	Bits    int  // 0 (plain), 2, 3, 4, 5, 6 or 8; 4 in MXFP4
	Group   int  // 32, 64 or 128 when Bits > 0; 32 in MXFP4
	Data    Tensor
	Scales  Tensor // F32, F16 or BF16; U8 in MXFP4
	Biases  Tensor // as Scales; none in MXFP4
}

// Mode is how codes and scales make elements. Names are MLX's.
type Mode uint8

const (
	// Affine elements are code*scale + bias, rounded once.
	Affine Mode = iota
	// MXFP4 elements are 2^(scale-127) times the code as a float of one sign, two exponent and one
	// fraction bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and from code 8 on their negatives (OCP
	// Microscaling Formats 1.0: E2M1 elements, E8M0 scales). As in MLX a scale of 255 is infinite.
	// Elements below 2^-126 may be zero on a GPU.
	MXFP4
)

func (m Mode) String() string {
	if m == MXFP4 {
		return "mxfp4"
	}
	return "affine"
}

// Bytes is the memory the weight occupies.
func (w *Weight) Bytes() int {
	n := 0
	for _, t := range []Tensor{w.Data, w.Scales, w.Biases} {
		n += t.Rows * t.Cols * t.DType.Size()
	}
	return n
}

// Format names the encoding, as "4-bit g64", "mxfp4" or "bfloat16".
func (w *Weight) Format() string {
	switch {
	case w.Bits == 0:
		return w.Data.DType.String()
	case w.Mode == MXFP4:
		return w.Mode.String()
	}
	return fmt.Sprintf("%d-bit g%d", w.Bits, w.Group)
}

// Check returns an error unless the tensors have the shapes that Experts, N, K, Mode, Bits and
// Group promise.
func (w *Weight) Check() error {
	rows := w.Experts * w.N
	if w.Experts < 1 || w.N < 1 || w.K < 1 {
		return fmt.Errorf("weight: got %d experts of [%d, %d], expected at least one of each",
			w.Experts, w.N, w.K)
	}
	if w.Bits == 0 {
		switch w.Data.DType {
		case F32, F16, BF16:
			return CheckShape("weight", w.Data, w.Data.DType, rows, w.K)
		}
		return fmt.Errorf("weight: got plain %s, expected float32, float16 or bfloat16",
			w.Data.DType)
	}
	switch w.Bits {
	case 2, 3, 4, 5, 6, 8:
	default:
		return fmt.Errorf("weight: got %d bits, expected 2, 3, 4, 5, 6 or 8", w.Bits)
	}
	switch w.Group {
	case 32, 64, 128:
	default:
		return fmt.Errorf("weight: got groups of %d, expected 32, 64 or 128", w.Group)
	}
	if w.Mode == MXFP4 && (w.Bits != 4 || w.Group != 32) {
		return fmt.Errorf(
			"weight: got %s of %d bits in groups of %d, expected 4 bits in groups of 32", w.Mode,
			w.Bits, w.Group)
	}
	if w.K%w.Group != 0 {
		return fmt.Errorf("weight: input width %d is not a multiple of the group of %d", w.K,
			w.Group)
	}
	if err := CheckShape("weight", w.Data, U32, rows, w.K*w.Bits/32); err != nil {
		return err
	}
	if w.Mode == MXFP4 {
		if !w.Biases.IsNone() {
			return fmt.Errorf("biases: got %s, expected none in %s", w.Biases, w.Mode)
		}
		return CheckShape("scales", w.Scales, U8, rows, w.K/w.Group)
	}
	switch w.Scales.DType {
	case F32, F16, BF16:
	default:
		return fmt.Errorf("scales: got %s, expected float32, float16 or bfloat16", w.Scales.DType)
	}
	if err := CheckShape("scales", w.Scales, w.Scales.DType, rows, w.K/w.Group); err != nil {
		return err
	}
	return CheckShape("biases", w.Biases, w.Scales.DType, rows, w.K/w.Group)
}
