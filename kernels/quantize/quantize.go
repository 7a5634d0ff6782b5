// Package quantize packs matrices of floats as MLX does on a GPU, bit for bit. The formats are
// those of kernels.Weight. It runs on the CPU when a model is converted, so it has no operators.
//
// The definition is MLX 0.32.4, the Metal kernels affine_quantize and fp_quantize. On a CPU, MLX
// rounds ties in another way (see kernels/DECISIONS.md). affine.go and floats.go have the
// definition in Go. affine.c and floats.c compute the same bits with SIMD.
package quantize

import (
	"fmt"
	"slices"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// Format is how the elements of a matrix are packed. The zero value is not valid.
type Format struct {
	Mode  kernels.Mode
	Bits  int // of a code
	Group int // elements of a row that share a scale
}

// Defaults are the formats of MLX's modes, by name.
var Defaults = map[string]Format{
	kernels.Affine.String(): {Mode: kernels.Affine, Bits: 4, Group: 64},
	kernels.MXFP4.String():  {Mode: kernels.MXFP4, Bits: 4, Group: 32},
	kernels.MXFP8.String():  {Mode: kernels.MXFP8, Bits: 8, Group: 32},
	kernels.NVFP4.String():  {Mode: kernels.NVFP4, Bits: 4, Group: 16},
}

// Check returns an error unless MLX has the format.
func (f Format) Check() error {
	d, ok := Defaults[f.Mode.String()]
	switch {
	case !ok:
		return fmt.Errorf("mode %s, expected affine, mxfp4, mxfp8 or nvfp4", f.Mode)
	case f.Mode != kernels.Affine && f != d:
		return fmt.Errorf("%d bits in groups of %d for %s, which has %d bits in groups of %d",
			f.Bits, f.Group, f.Mode, d.Bits, d.Group)
	case f.Mode != kernels.Affine:
		return nil
	case !slices.Contains([]int{2, 3, 4, 5, 6, 8}, f.Bits):
		return fmt.Errorf("%d bits, expected 2, 3, 4, 5, 6 or 8", f.Bits)
	case !slices.Contains([]int{32, 64, 128}, f.Group):
		return fmt.Errorf("groups of %d, expected 32, 64 or 128", f.Group)
	}
	return nil
}

// CodeBytes returns the size of the codes of n elements, a number of whole groups.
func (f Format) CodeBytes(n int) int { return n / 8 * f.Bits }

// ScaleBytes returns the size of the scales of n elements of the given type, a number of whole
// groups. In Affine, the biases have the same size; the other modes have none.
func (f Format) ScaleBytes(n int, dtype kernels.DType) int {
	if f.Mode != kernels.Affine {
		return n / f.Group
	}
	return n / f.Group * dtype.Size()
}

// Packed is the memory of the results. Their sizes are those of CodeBytes and ScaleBytes. Biases
// are nil unless the mode is Affine.
type Packed struct{ Codes, Scales, Biases []byte }

// Pack packs the elements of whole rows, in the memory order of the matrix. data has elements of
// type dtype: F32, F16 or BF16. Elements must be finite. Scales and biases of Affine get the same
// type. isa is one of cpu.Available. Several goroutines may pack parts of a matrix at once.
//
// It panics if f is not valid, or if the sizes do not match.
func (f Format) Pack(isa cpu.ISA, to Packed, data []byte, dtype kernels.DType) {
	if err := f.Check(); err != nil {
		panic("quantize: Format.Pack: " + err.Error())
	}
	n := len(data) / dtype.Size()
	biases := 0
	if f.Mode == kernels.Affine {
		biases = f.ScaleBytes(n, dtype)
	}
	if dtype > kernels.BF16 || len(data)%dtype.Size() != 0 || n%f.Group != 0 ||
		len(to.Codes) != f.CodeBytes(n) || len(to.Scales) != f.ScaleBytes(n, dtype) ||
		len(to.Biases) != biases {
		panic(fmt.Sprintf("quantize: Format.Pack of %d bytes of %s: got %d bytes of codes, %d of "+
			"scales and %d of biases", len(data), dtype, len(to.Codes), len(to.Scales),
			len(to.Biases)))
	}
	if n == 0 {
		return
	}
	if isa == cpu.Generic {
		f.plain(to, data, dtype)
		return
	}
	f.native(isa, to, data, dtype, n/f.Group)
}
