package attention

import "math"

// maxFloat16 is the largest finite float16. Keys and values beyond it saturate, because an infinity
// in the cache would turn every later token of the sequence into NaN.
const maxFloat16 = 65504

// toFloat16 rounds to nearest even and saturates. NaN stays NaN.
func toFloat16(x float32) uint16 {
	if x != x {
		return 0x7e00
	}
	x = max(-maxFloat16, min(maxFloat16, x))
	bits := math.Float32bits(x)
	sign, magnitude := uint16(bits>>16)&0x8000, bits&0x7fffffff
	if magnitude < 0x38800000 { // below 2^-14: subnormal, a multiple of 2^-24
		return sign | uint16(math.RoundToEven(math.Abs(float64(x))*(1<<24)))
	}
	magnitude += 0xfff + magnitude>>13&1
	return sign | uint16((magnitude-0x38000000)>>13)
}

func fromFloat16(h uint16) float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exponent {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// toBFloat16 rounds to nearest even. NaN stays NaN.
func toBFloat16(x float32) uint16 {
	if x != x {
		return 0x7fc0
	}
	bits := math.Float32bits(x)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
