package checkpoint

// Conversions between float32 and the types of tensors.

import (
	"encoding/binary"
	"math"

	"headroom/kernels"
)

// Float32s converts the first len(dst) elements of a contiguous F32, F16 or BF16 tensor to float32.
// It panics for other types.
func Float32s(dst []float32, t kernels.Tensor) {
	b := t.Bytes()
	for i := range dst {
		switch t.DType {
		case kernels.F32:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		case kernels.BF16:
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		case kernels.F16:
			dst[i] = float16(binary.LittleEndian.Uint16(b[2*i:]))
		default:
			panic("checkpoint: Float32s of " + t.String())
		}
	}
}

// float16 converts an IEEE half-precision number to float32.
func float16(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// maxFloat16 is the largest number in half precision.
const maxFloat16 = 65504

// float16Bits converts a number that is exact in half precision.
func float16Bits(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, exponent := uint16(bits>>16&0x8000), int(bits>>23&0xff)-112
	if exponent < 1 { // zero or subnormal: a multiple of 2^-24
		return sign | uint16(math.Abs(float64(v))*(1<<24))
	}
	return sign | uint16(exponent)<<10 | uint16(bits>>13&0x3ff)
}
