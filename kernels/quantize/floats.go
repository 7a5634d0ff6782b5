package quantize

// The definition of groups of MXFP4, MXFP8 and NVFP4, in scalar Go. floats.c computes the same
// bits.

import (
	"math"

	"headroom/kernels"
)

// mxGroup returns the E8M0 scale of a group in MXFP4 or MXFP8, and its codes. The scale is the
// smallest power of two with which no element is larger than the largest code.
func mxGroup(codes []uint8, group []float32, bits int) (scale uint8) {
	most := maxE2M1
	if bits == kernels.MXFP8.Bits() {
		most = maxE4M3
	}
	scale = ceilE8M0(largest(group) / most)
	factor := 1 / math.Float32frombits(max(uint32(scale)<<23, 1<<22))
	for i, v := range group {
		if bits == kernels.MXFP8.Bits() {
			codes[i] = toE4M3(v * factor)
		} else {
			codes[i] = toE2M1(v * factor)
		}
	}
	return scale
}

// nvfp4Group returns the E4M3 scale of a group in NVFP4, and its codes. The global scale is 1.
func nvfp4Group(codes []uint8, group []float32) (scale uint8) {
	scale = toE4M3(largest(group) / maxE2M1)
	factor := float32(0)
	if scale != 0 {
		factor = 1 / fromE4M3(scale)
	}
	for i, v := range group {
		codes[i] = toE2M1(v * factor)
	}
	return scale
}

// The largest values of the codes.
const (
	maxE2M1 = float32(6)
	maxE4M3 = float32(448)
)

func largest(group []float32) (most float32) {
	for _, v := range group {
		most = max(most, abs(v))
	}
	return most
}

// ceilE8M0 returns the smallest code of a power of two that is at least x, which is not negative.
func ceilE8M0(x float32) uint8 {
	b := math.Float32bits(x)
	exponent, fraction := b>>23, b&(1<<23-1)
	switch {
	case exponent == 0 && fraction <= 1<<22: // 2^-127 is a subnormal
		return 0
	case fraction == 0 || exponent == 254:
		return uint8(exponent)
	}
	return uint8(exponent + 1)
}

// toE2M1 returns the code of the nearest value, and between two the even code. -0 keeps its sign.
func toE2M1(x float32) uint8 {
	code, v := uint8(0), abs(x)
	for _, exceeds := range [...]bool{v > 0.25, v >= 0.75, v > 1.25, v >= 1.75, v > 2.5, v >= 3.5,
		v > 5} {
		if exceeds {
			code++
		}
	}
	return code | uint8(math.Float32bits(x)>>31<<3)
}

// toE4M3 returns the code of the nearest value, between two the even code, and that of 448 for
// everything larger. -0 keeps its sign.
func toE4M3(x float32) uint8 {
	sign := uint8(math.Float32bits(x) >> 24 & 0x80)
	v := abs(x)
	b := math.Float32bits(v)
	switch {
	case v >= maxE4M3:
		return sign | 0x7e
	case v < 0x1p-6: // the sum has units of 2^-9 at its end
		return sign | uint8(math.Float32bits(v+0x1p14)-math.Float32bits(0x1p14))
	}
	b += b >> 20 & 1
	b += 1<<19 - 1
	return sign | uint8((b-(127-7)<<23)>>20)
}

func fromE4M3(code uint8) float32 {
	exponent, fraction := int(code>>3&15), float64(code&7)
	v := float32(fraction / 512)
	if exponent > 0 {
		v = float32(math.Ldexp(1+fraction/8, exponent-7))
	}
	if code >= 0x80 {
		return -v
	}
	return v
}
