package kernels

// Packed weights, checked against the promises that kernels rely on before they read a byte.

import "fmt"

// Weight is a matrix [N, K] of a checkpoint, or E of them stacked, in the packed form the file holds: weights are never
// expanded in memory. Outputs are y = x Wᵀ, one element per row of W.
//
// With Bits 0 the elements are plain (DType F32, F16 or BF16) and Data is [E*N, K]. Otherwise they are MLX affine codes: Data
// is uint32 [E*N, K*Bits/32], each row one little-endian LSB-first stream of Bits-wide codes; Scales and Biases are
// [E*N, K/Group] in F32, F16 or BF16; element = code*scale + bias.
type Weight struct {
	Experts int // E, 1 for a plain matrix
	N, K    int
	Bits    int // 0 (plain), 2, 3, 4, 5, 6 or 8
	Group   int // 32, 64 or 128 when Bits > 0
	Data    Tensor
	Scales  Tensor
	Biases  Tensor
}

// Bytes is the memory the weight occupies.
func (w *Weight) Bytes() int {
	n := w.Data.Rows * w.Data.Cols * w.Data.DType.Size()
	if w.Bits > 0 {
		n += 2 * w.Scales.Rows * w.Scales.Cols * w.Scales.DType.Size()
	}
	return n
}

// Format names the encoding, as "4-bit g64" or "bfloat16".
func (w *Weight) Format() string {
	if w.Bits == 0 {
		return w.Data.DType.String()
	}
	return fmt.Sprintf("%d-bit g%d", w.Bits, w.Group)
}

// Check returns an error unless the tensors have the shapes that Experts, N, K, Bits and Group promise.
func (w *Weight) Check() error {
	rows := w.Experts * w.N
	if w.Experts < 1 || w.N < 1 || w.K < 1 {
		return fmt.Errorf("weight: got %d experts of [%d, %d], expected at least one of each", w.Experts, w.N, w.K)
	}
	if w.Bits == 0 {
		switch w.Data.DType {
		case F32, F16, BF16:
			return CheckShape("weight", w.Data, w.Data.DType, rows, w.K)
		}
		return fmt.Errorf("weight: got plain %s, expected float32, float16 or bfloat16", w.Data.DType)
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
	if w.K%w.Group != 0 {
		return fmt.Errorf("weight: input width %d is not a multiple of the group of %d", w.K, w.Group)
	}
	if err := CheckShape("weight", w.Data, U32, rows, w.K*w.Bits/32); err != nil {
		return err
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
