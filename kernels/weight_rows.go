package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Reading weights one row at a time in scalar Go. This is the specification of the packed formats,
// and the references of all families use it. RandomWeight makes weights for their cases.

// DecodeRow writes row r of t to dst as float32. t is F32, F16 or BF16, and dst has at least t.Cols
// elements. It panics for any other type.
func (t Tensor) DecodeRow(dst []float32, r int) {
	DecodeFloats(dst[:t.Cols], t.RowRange(r, r+1).Bytes(), t.DType)
}

// DecodeFloats writes the first elements of b to dst. b holds float32, float16 or bfloat16.
func DecodeFloats(dst []float32, b []byte, dtype DType) {
	switch dtype {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = float16Value(binary.LittleEndian.Uint16(b[2*i:]))
		}
	default:
		panic(fmt.Sprintf("kernels: decoding %s: expected float32, float16 or bfloat16", dtype))
	}
}

// DecodeCodes writes the K codes of row [0, E*N) to dst. w must be quantized (Bits > 0).
func (w *Weight) DecodeCodes(dst []uint8, row int) {
	b := w.Data.RowRange(row, row+1).Bytes()
	window, have, next := uint64(0), 0, 0 // have is the number of bits in window
	mask := uint64(1)<<w.Bits - 1
	for i := range dst[:w.K] {
		for have < w.Bits {
			window |= uint64(b[next]) << have
			next, have = next+1, have+8
		}
		dst[i] = uint8(window & mask)
		window, have = window>>w.Bits, have-w.Bits
	}
}

// MXFP4Doubled is twice the value of each MXFP4 code. Doubled values are integers.
var MXFP4Doubled = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// e4m3Doubled returns twice the value of an MXFP8 code.
func e4m3Doubled(code uint8) float32 {
	// A float16 with the same bits is 2^8 times smaller. A code of NaN carries into its exponent.
	magnitude := uint16(code & 0x7f)
	return float16Value(uint16(code&0x80)<<8|magnitude<<7|(magnitude+1)>>7<<14) * 0x1p9
}

// DecodeHalfScales writes half of each scale of a row in a mode other than Affine to dst. These are
// the factors of doubled values.
func (w *Weight) DecodeHalfScales(dst []float32, row int) {
	switch w.Mode {
	case FP8:
		w.Scales.DecodeRow(dst, row)
		for i := range dst {
			dst[i] /= 2
		}
		return
	case NVFP4:
		var global [1]float32
		w.Biases.DecodeRow(global[:], row)
		for i, s := range w.Scales.RowRange(row, row+1).Bytes() {
			dst[i] = e4m3Doubled(s) * (global[0] / 4)
		}
		return
	}
	for i, s := range w.Scales.RowRange(row, row+1).Bytes() {
		// A scale is the exponent field of a float32, except 0, which means the subnormal 2^-127.
		dst[i] = math.Float32frombits(max(uint32(s)<<23, 1<<22)) / 2
	}
}

// DequantizeRow writes the elements of row [0, E*N) to dst as float32, whether quantized or plain.
func (w *Weight) DequantizeRow(dst []float32, row int) {
	if w.Bits == 0 {
		w.Data.DecodeRow(dst, row)
		return
	}
	codes := make([]uint8, w.K)
	scales, biases := make([]float32, w.groups()), make([]float32, w.groups())
	w.DecodeCodes(codes, row)
	if w.Mode != Affine {
		w.DecodeHalfScales(scales, row)
		for i, c := range codes {
			var doubled float32
			if w.Mode.E4M3Values() {
				doubled = e4m3Doubled(c)
			} else {
				doubled = float32(MXFP4Doubled[c])
			}
			dst[i] = doubled * scales[i/w.Group]
		}
		return
	}
	w.Scales.DecodeRow(scales, row)
	w.Biases.DecodeRow(biases, row)
	for i, c := range codes {
		// The product is exact in float64: 8 bits by 24.
		dst[i] = float32(float64(c)*float64(scales[i/w.Group]) + float64(biases[i/w.Group]))
	}
}

// RandomWeight allocates a weight with random elements, whose standard deviation is about scale.
// If bits is 0 the elements are plain and of dtype. If dtype is U8 or E4M3 the mode is that of
// ModeOf, so bits must be 4 or 8 and group must be one of the mode. Otherwise it is Affine, with
// scales and biases of dtype that center the codes around zero.
func RandomWeight(d Device, r *rand.Rand, experts, n, k, bits, group int, dtype DType,
	scale float64) *Weight {
	w := &Weight{Experts: experts, N: n, K: k, Bits: bits, Group: group}
	rows := experts * n
	if bits == 0 {
		w.Data = NewTensor(d, dtype, rows, k)
		fill(w.Data, func() float64 { return r.NormFloat64() * scale })
		return w
	}
	w.Data = NewTensor(d, U32, rows, k*bits/32)
	for b := w.Data.Bytes(); len(b) >= 4; b = b[4:] {
		binary.LittleEndian.PutUint32(b, r.Uint32())
	}
	if w.Mode = ModeOf(bits, dtype); w.Mode != Affine {
		for i, b := 0, w.Data.Bytes(); w.Mode.E4M3Values() && i < len(b); i++ {
			if b[i]&0x7f == 0x7f { // NaN
				b[i]--
			}
		}
		w.RandomScales(func(dtype DType, rows, cols int) Tensor {
			return NewTensor(d, dtype, rows, cols)
		}, r, scale)
		return w
	}
	// Uniformly random codes in [0, 2^bits) have a standard deviation of 2^bits/sqrt(12).
	step := scale * math.Sqrt(12) / float64(int(1)<<bits)
	w.Scales, w.Biases = NewTensor(d, dtype, rows, k/group), NewTensor(d, dtype, rows, k/group)
	fill(w.Scales, func() float64 { return step * (0.5 + r.Float64()) * float64(1-2*r.IntN(2)) })
	scales := make([]float32, k/group)
	for row := range rows {
		w.Scales.DecodeRow(scales, row)
		g := 0
		fill(w.Biases.RowRange(row, row+1), func() float64 {
			g++
			return -float64(scales[g-1]) * float64(int(1)<<bits) * (0.4 + 0.2*r.Float64())
		})
	}
	return w
}

// RandomScales allocates the scales of a weight in a mode other than Affine, with which elements of
// uniformly random codes have a standard deviation of 0.4 to 1.6 times the given one.
func (w *Weight) RandomScales(newTensor func(dtype DType, rows, cols int) Tensor, r *rand.Rand,
	deviation float64) {
	codes, exponent := 2.9, 125 // the deviation of their values, and the E8M0 scale for about 1
	if w.Mode.E4M3Values() {
		codes, exponent = 104, 119
	}
	w.Scales = newTensor(modes[w.Mode].scales, w.Experts*w.N, w.groups())
	if w.Mode == NVFP4 {
		w.Biases = newTensor(F32, w.Experts*w.N, 1)
	}
	if w.Scales.Buffer.Bytes == nil {
		return
	}
	factor := func() float64 { return deviation / codes * (0.5 + r.Float64()) }
	switch w.Mode {
	case FP8:
		fill(w.Scales, factor)
		return
	case NVFP4:
		const half = 0x30 // 0x38 is 1
		for i, b := 0, w.Scales.Bytes(); i < len(b); i++ {
			b[i] = half + uint8(r.IntN(13)) + uint8(r.IntN(2))<<7
		}
		fill(w.Biases, factor)
		return
	}
	_, more := math.Frexp(deviation)
	for i, b := 0, w.Scales.Bytes(); i < len(b); i++ {
		b[i] = uint8(exponent+more) - uint8(r.IntN(2))
	}
}

// fill sets every element of t to next(), rounded toward zero. t must be contiguous and F32, F16
// or BF16.
func fill(t Tensor, next func() float64) {
	b := t.Bytes()
	for i := range t.Rows * t.Cols {
		v := math.Float32bits(float32(next()))
		switch t.DType {
		case F32:
			binary.LittleEndian.PutUint32(b[4*i:], v)
		case BF16:
			binary.LittleEndian.PutUint16(b[2*i:], uint16(v>>16))
		case F16:
			binary.LittleEndian.PutUint16(b[2*i:], float16Bits(v))
		}
	}
}

// float16Value returns the value of an IEEE 754 binary16.
func float16Value(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero and subnormals: fraction * 2^-24
		v := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// float16Bits rounds the float32 with the bits v toward zero to a binary16. Magnitudes below the
// smallest normal become zero, and magnitudes above the largest become infinite.
func float16Bits(v uint32) uint16 {
	sign, exponent := uint16(v>>16&0x8000), int(v>>23&0xff)-112
	switch {
	case exponent < 1:
		return sign
	case exponent > 30:
		return sign | 0x7c00
	}
	return sign | uint16(exponent)<<10 | uint16(v>>13&0x3ff)
}
