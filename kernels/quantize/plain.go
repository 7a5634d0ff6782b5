package quantize

// The definition of each mode, in scalar Go. The arithmetic is float32 throughout: Go rounds each
// operation if its result is converted explicitly.

import (
	"encoding/binary"
	"math"

	"headroom/kernels"
)

// leastScale is the smallest step of an affine group.
const leastScale = float32(1e-7)

func (f Format) plain(to Packed, data []byte, dtype kernels.DType) {
	n := len(data) / dtype.Size()
	group, codes := make([]float32, f.Group), make([]uint8, f.Group)
	for at := 0; at < n; at += f.Group {
		kernels.Tensor{Buffer: &kernels.Buffer{Bytes: data, Size: len(data)},
			Offset: at * dtype.Size(), DType: dtype, Rows: 1, Cols: f.Group,
			Stride: f.Group}.DecodeRow(group, 0)
		g := at / f.Group
		switch f.Mode {
		case kernels.Affine:
			scale, bias := affineGroup(codes, group, f.Bits)
			PutFloat(to.Scales, g, scale, dtype)
			PutFloat(to.Biases, g, bias, dtype)
		case kernels.NVFP4:
			to.Scales[g] = nvfp4Group(codes, group)
		default:
			to.Scales[g] = mxGroup(codes, group, f.Bits)
		}
		putCodes(to.Codes[at/8*f.Bits:], codes, f.Bits)
	}
}

// affineGroup returns the scale and the bias of a group, and its codes.
//
// The end of the range with the larger magnitude becomes exact, and so does zero if the group has
// values on both sides of it. The range of a group always includes zero from below: the largest
// value counts as at least 0. Codes are rounded with the scale in float32, before it is rounded to
// its type.
func affineGroup(codes []uint8, group []float32, bits int) (scale, bias float32) {
	least, most := float32(math.Inf(1)), float32(0)
	for _, v := range group {
		least, most = min(least, v), max(most, v)
	}
	steps := float32(int(1)<<bits - 1)
	scale = max(float32(most-least)/steps, leastScale)
	edge := most
	if abs(least) > abs(most) {
		edge = least
	} else {
		scale = -scale
	}
	if q := roundAway(edge / scale); q != 0 {
		scale, bias = edge/q, edge
	}
	for i, v := range group {
		code := roundAway(float32(v-bias) / scale)
		if !(code < steps) { // also one that is not a number: the values are too large for a scale
			code = steps
		}
		codes[i] = uint8(code)
	}
	return scale, bias
}

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

func abs(v float32) float32 { return max(v, -v) }

func largest(group []float32) (most float32) {
	for _, v := range group {
		most = max(most, abs(v))
	}
	return most
}

// roundAway rounds to the nearest integer, and ties away from zero.
func roundAway(v float32) float32 { return float32(math.Round(float64(v))) }

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

// PutFloat rounds v to dtype, to nearest and ties to even, and stores it as element i of b.
func PutFloat(b []byte, i int, v float32, dtype kernels.DType) {
	bits := math.Float32bits(v)
	switch dtype {
	case kernels.F32:
		binary.LittleEndian.PutUint32(b[4*i:], bits)
	case kernels.BF16:
		binary.LittleEndian.PutUint16(b[2*i:], bfloat16(bits))
	case kernels.F16:
		binary.LittleEndian.PutUint16(b[2*i:], float16(bits))
	}
}

// bfloat16 rounds the float32 with the given bits.
func bfloat16(b uint32) uint16 {
	if b&0x7fffffff > 0x7f800000 {
		return 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// float16 rounds the float32 with the given bits.
func float16(b uint32) uint16 {
	sign, b := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // at least 65520, which rounds to 2^16
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: the sum has units of 2^-24 at its end
		sum := math.Float32bits(math.Float32frombits(b) + 0.5)
		return sign | uint16(sum-math.Float32bits(0.5))
	}
	return sign | uint16((b+0xfff+b>>13&1-(127-15)<<23)>>13)
}

// putCodes stores codes as a stream of bits, lowest bit first.
func putCodes(to []byte, codes []uint8, bits int) {
	window, have, next := uint32(0), 0, 0
	for _, c := range codes {
		window |= uint32(c) << have
		for have += bits; have >= 8; have -= 8 {
			to[next] = uint8(window)
			next, window = next+1, window>>8
		}
	}
}
