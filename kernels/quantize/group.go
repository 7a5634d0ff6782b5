package quantize

// What the definitions of all modes share: loading a group, rounding to the type of scales, and
// packing codes, as group.h does.

import (
	"encoding/binary"
	"math"

	"headroom/kernels"
)

// largestGroup is the largest number of elements of a group.
const largestGroup = 128

// plain packs groups as the definitions say.
func (f Format) plain(to Packed, data []byte, dtype kernels.DType) {
	n := len(data) / dtype.Size()
	var floats [largestGroup]float32 // on the stack: rows may be short and many
	var numbers [largestGroup]uint8
	group, codes := floats[:f.Group], numbers[:f.Group]
	for at := 0; at < n; at += f.Group {
		kernels.DecodeFloats(group, data[at*dtype.Size():], dtype)
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
		PutCodes(to.Codes[at/8*f.Bits:], codes, f.Bits)
	}
}

func abs(v float32) float32 { return max(v, -v) }

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

// PutCodes stores codes of so many bits as a stream of bits, lowest bit first. The codes are whole
// bytes together.
func PutCodes(to []byte, codes []uint8, bits int) {
	window, have, next := uint32(0), 0, 0
	for _, c := range codes {
		window |= uint32(c) << have
		for have += bits; have >= 8; have -= 8 {
			to[next] = uint8(window)
			next, window = next+1, window>>8
		}
	}
}
