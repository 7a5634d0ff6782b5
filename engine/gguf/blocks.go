package gguf

// The blocks as numbers. A block has a scale d in float16 and, in some types, a minimum m or dmin,
// beside the codes of its elements. Low halves of bytes are the first elements of a run, high ones
// the elements after them.

import (
	"encoding/binary"
	"math"
)

// half returns the float16 with which b begins.
func half(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	sign, exponent, fraction := h&0x8000<<16, h>>10&0x1f, h&0x3ff
	switch {
	case exponent == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	case exponent == 0:
		small := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(small) | sign)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

func decodeF32(to []float32, b []byte) {
	to[0] = math.Float32frombits(binary.LittleEndian.Uint32(b))
}

func decodeF16(to []float32, b []byte) { to[0] = half(b) }

func decodeBF16(to []float32, b []byte) {
	to[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

// halves writes the 4-bit codes of 16 bytes: 32 elements.
func halves(codes []uint8, b []byte) {
	for i, c := range b[:16] {
		codes[i], codes[i+16] = c&15, c>>4
	}
}

// fifthBits adds the fifth bits of 32 codes, of which bit i belongs to element i.
func fifthBits(codes []uint8, b []byte) {
	bits := binary.LittleEndian.Uint32(b)
	for i := range 32 {
		codes[i] |= uint8(bits >> i & 1 << 4)
	}
}

// Q4_0: d, 16 bytes of codes. The elements are d(q-8).
func decodeQ40(to []float32, b []byte) {
	var codes [32]uint8
	halves(codes[:], b[2:])
	centred(to, codes[:], half(b), 8)
}

// Q4_1: d, m, 16 bytes of codes. The elements are dq + m.
func decodeQ41(to []float32, b []byte) {
	var codes [32]uint8
	halves(codes[:], b[4:])
	from(to, codes[:], half(b), half(b[2:]))
}

// Q5_0: d, 4 bytes of fifth bits, 16 bytes of codes. The elements are d(q-16).
func decodeQ50(to []float32, b []byte) {
	var codes [32]uint8
	halves(codes[:], b[6:])
	fifthBits(codes[:], b[2:])
	centred(to, codes[:], half(b), 16)
}

// Q5_1: d, m, 4 bytes of fifth bits, 16 bytes of codes. The elements are dq + m.
func decodeQ51(to []float32, b []byte) {
	var codes [32]uint8
	halves(codes[:], b[8:])
	fifthBits(codes[:], b[4:])
	from(to, codes[:], half(b), half(b[2:]))
}

// Q8_0: d, 32 signed bytes. The elements are dq.
func decodeQ80(to []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:34] {
		to[i] = d * float32(int8(q))
	}
}

// centred writes d(q-middle).
func centred(to []float32, codes []uint8, d float32, middle int) {
	for i, q := range codes {
		to[i] = d * float32(int(q)-middle)
	}
}

// from writes dq + m. The product is rounded first; it is exact in every type.
func from(to []float32, codes []uint8, d, m float32) {
	for i, q := range codes {
		to[i] = float32(d*float32(q)) + m
	}
}

// scaleMin returns the 6-bit scale and minimum of run i of eight, from 12 bytes: those of the first
// four runs are the low bits of bytes 0 to 7. Those of the others are in bytes 8 to 11, and their
// two highest bits in the high bits of bytes 0 to 7.
func scaleMin(b []byte, i int) (scale, least uint8) {
	if i < 4 {
		return b[i] & 63, b[i+4] & 63
	}
	return b[i+4]&15 | b[i-4]>>6<<4, b[i+4]>>4 | b[i]>>6<<4
}

// runK returns the scale and the negative minimum of run i of a block of Q4_K or Q5_K: 32 elements
// dq + m. Both are exact in float32.
func runK(b []byte, i int) (d, m float32) {
	scale, least := scaleMin(b[4:16], i)
	return half(b) * float32(scale), -half(b[2:]) * float32(least)
}

// codesQ4K writes the codes of run i of a block of Q4_K. 32 bytes have two runs.
func codesQ4K(codes []uint8, b []byte, i int) {
	for j, c := range b[16+i/2*32:][:32] {
		codes[j] = c >> (i % 2 * 4) & 15
	}
}

// codesQ5K is codesQ4K for Q5_K. Bit i of byte j of 32 is the fifth bit of element j of run i.
func codesQ5K(codes []uint8, b []byte, i int) {
	for j, c := range b[48+i/2*32:][:32] {
		codes[j] = c>>(i%2*4)&15 | b[16+j]>>i&1<<4
	}
}

// Q4_K: d, dmin, 12 bytes of scales and minima, 128 bytes of codes. Eight runs of 32.
func decodeQ4K(to []float32, b []byte) {
	var codes [32]uint8
	for i := range 8 {
		codesQ4K(codes[:], b, i)
		d, m := runK(b, i)
		from(to[i*32:], codes[:], d, m)
	}
}

// Q5_K: as Q4_K, with 32 bytes of fifth bits before the codes.
func decodeQ5K(to []float32, b []byte) {
	var codes [32]uint8
	for i := range 8 {
		codesQ5K(codes[:], b, i)
		d, m := runK(b, i)
		from(to[i*32:], codes[:], d, m)
	}
}

// Q6_K: 128 bytes of low halves, 64 bytes of high quarters, 16 signed scales, d. Each half of the
// block has four runs of 32: the low halves of 32 bytes, those of the next 32, and their high
// halves. The elements are (d scale)(q-32), and a scale is that of 16 elements.
func decodeQ6K(to []float32, b []byte) {
	d := half(b[208:])
	for n := range 2 {
		low, high, scales := b[n*64:], b[128+n*32:], b[192+n*8:]
		for run := range 4 {
			for j := range 32 {
				q := low[run%2*32+j] >> (run / 2 * 4) & 15
				q |= high[j] >> (run * 2) & 3 << 4
				scale := d * float32(int8(scales[run*2+j/16]))
				to[n*128+run*32+j] = scale * float32(int(q)-32)
			}
		}
	}
}

// e2m1 has the values of the codes of MXFP4 (OCP Microscaling Formats 1.0).
var e2m1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// MXFP4: the exponent of a power of two, biased by 127, and 16 bytes of codes. Exponent 255 is no
// number.
func decodeMXFP4(to []float32, b []byte) {
	var codes [32]uint8
	halves(codes[:], b[1:])
	d := float32(math.Ldexp(1, int(b[0])-127))
	if b[0] == 255 {
		d = float32(math.NaN())
	}
	for i, q := range codes {
		to[i] = d * e2m1[q]
	}
}

// Exponents calls each for the groups of 32 elements in whole blocks of MXFP4, in their order, with
// the codes and the scale as MLX's mode mxfp4 has them. The codes are valid until it returns.
func Exponents(blocks []byte, each func(i int, codes []uint8, scale uint8)) {
	var codes [AffineGroup]uint8
	size := MXFP4.Bytes(AffineGroup)
	for i := 0; i*size < len(blocks); i++ {
		block := blocks[i*size:]
		halves(codes[:], block[1:])
		each(i, codes[:], block[0])
	}
}
