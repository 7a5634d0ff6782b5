package attention

import (
	"encoding/binary"
	"math"
)

// Quantized pages, the rules of quantizing, and both in plain Go; kv_format.h has the same in C,
// and the same bits.
//
// A page of a head is a row of strips of 16 positions. A strip starts with the scales, float16
// [groups][16 positions], and, for Affine, the biases likewise; its codes follow. Codes of 3, 5 and
// 6 bits are cut into planes, 2+1, 4+1 and 4+2 bits, low bits first, so that a vector of 16 codes
// is found by whole bytes and shifts.
//
//   - K: bundles of 32 dimensions, 64*bits bytes. A plane of w bits is w rows of [16 positions][4 bytes]; dimensions 4q to 4q+3 are
//     the bytes of row q*w/8 from bit q*w%8 on. A byte belongs to one position, so positions can be written independently.
//   - V: bundles of 32 dimensions and 4 positions, 16*bits bytes, the four bundles of the same dimensions side by side. A plane of w bits
//     is [4*w lanes][4 bytes]; dimension i is in lane i%(4*w) from bit i/(4*w)*w on. Positions 0, 1, 2 and 3 are bytes 0, 2, 1 and 3.
//
// So 4 bytes are 4 steps of the sum that attention does over dimensions of K or over positions of
// V, as instructions for integer dot products take them.
//
// An all-zero strip is zeros (Affine, scale 0), so fresh pages are harmless.

// stripTokens is the positions of a strip. The same number stands in kv_page.h.
const stripTokens = 16

// strip is one position (lane) of a strip.
type strip struct {
	bytes   []byte // of all 16 positions
	f       Format
	keys    bool
	headDim int
	lane    int
}

func (s *strip) read(dst []float32) {
	for g := range s.headDim / s.f.group() {
		// Exact in float64 (codes of 8 bits, parameters of 11, exponents 40 apart at most), so this
		// rounds once, as a fused multiply-add does.
		scale, bias := s.params(g)
		for i := range s.f.group() {
			at := g*s.f.group() + i
			dst[at] = float32(float64(s.code(at))*scale + bias)
		}
	}
}

// params is the scale and the bias of group g.
func (s *strip) params(g int) (scale, bias float64) {
	groups := s.headDim / s.f.group()
	scale = float64(fromFloat16(binary.LittleEndian.Uint16(s.bytes[2*(g*stripTokens+s.lane):])))
	if zero := s.f.zero(); zero > 0 {
		return scale, -float64(zero) * scale
	}
	return scale, float64(fromFloat16(
		binary.LittleEndian.Uint16(s.bytes[2*((groups+g)*stripTokens+s.lane):])))
}

// planes are the widths that a code of so many bits is cut into, low bits first.
func planes(bits int) (low, high int) {
	switch bits {
	case 3:
		return 2, 1
	case 5:
		return 4, 1
	case 6:
		return 4, 2
	}
	return bits, 0
}

// field is the byte, and the bit in it, where the plane of width bits that starts at base holds
// dimension dim.
func (s *strip) field(dim, base, width int) (at, shift int) {
	i := dim % bundleDims
	if s.keys {
		q := i / 4
		return base + q*width/8*4*stripTokens + 4*s.lane + i%4, q * width % 8
	}
	lanes := 4 * width
	return base + i%lanes*4 + [4]int{0, 2, 1, 3}[s.lane%4], i / lanes * width
}

// bundleDims is the dimensions whose codes lie together.
const bundleDims = 32

// bundle is where the bundle of dim starts, and the bytes that a plane takes in it per bit.
func (s *strip) bundle(dim int) (at, perBit int) {
	bits := s.f.bits()
	at = 2*stripTokens*s.f.params()*s.headDim/s.f.group() + dim/bundleDims*64*bits
	if s.keys {
		return at, 64
	}
	return at + s.lane/4*16*bits, 16
}

func (s *strip) code(dim int) int {
	base, perBit := s.bundle(dim)
	low, high := planes(s.f.bits())
	at, shift := s.field(dim, base, low)
	code := int(s.bytes[at]>>shift) & (1<<low - 1)
	if high > 0 {
		at, shift = s.field(dim, base+low*perBit, high)
		code |= int(s.bytes[at]>>shift) & (1<<high - 1) << low
	}
	return code
}

func (s *strip) setCode(dim, code int) {
	base, perBit := s.bundle(dim)
	low, high := planes(s.f.bits())
	set := func(base, width, bits int) {
		at, shift := s.field(dim, base, width)
		mask := byte(1<<width-1) << shift
		s.bytes[at] = s.bytes[at]&^mask | byte(bits<<shift)&mask
	}
	set(base, low, code)
	if high > 0 {
		set(base+low*perBit, high, code>>low)
	}
}

// write quantizes a position. Elements saturate to what a float16 can hold, as in a plain cache; a
// group with a NaN becomes NaN.
func (s *strip) write(src []float32) {
	size, groups := s.f.group(), s.headDim/s.f.group()
	var room [128]float32 // the largest group
	x := room[:size]
	for g := range groups {
		nan := false
		for i, v := range src[g*size:][:size] {
			x[i] = max(-maxFloat16, min(maxFloat16, v))
			nan = nan || v != v
		}
		scale, bias := uint16(0x7e00), uint16(0x7e00)
		if !nan {
			var r rounding
			scale, bias, r = s.f.rule(x)
			for i, v := range x {
				s.setCode(g*size+i, r.code(v))
			}
		} else {
			for i := range x {
				s.setCode(g*size+i, 0)
			}
		}
		binary.LittleEndian.PutUint16(s.bytes[2*(g*stripTokens+s.lane):], scale)
		if s.f.Kind == Affine {
			binary.LittleEndian.PutUint16(s.bytes[2*((groups+g)*stripTokens+s.lane):], bias)
		}
	}
}

// rule is how a group of finite elements is stored: its parameters and the code of each element.
// All arithmetic is float32.
func (f Format) rule(x []float32) (scale, bias uint16, r rounding) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	switch f.Kind {
	case Q8_0: // codes come from the unrounded scale, as ggml's
		d := max(hi, -lo)/127 + 0 // 0, never -0
		return toFloat16(d), 0, rounding{kind: Q8_0, scale: d}
	case Q4_0:
		d := largest(x, lo, hi)/-8 + 0
		return toFloat16(d), 0, rounding{kind: Q4_0, scale: d}
	}
	s, b := affineGrid(lo, hi, f.Bits)
	// The codes are chosen for the parameters as they are stored: what rounding moves the grid by,
	// a code can often make up for.
	scale, bias = toFloat16(s), toFloat16(b)
	return scale, bias, rounding{kind: Affine, scale: fromFloat16(scale), bias: fromFloat16(bias),
		top: float32(int(1)<<f.Bits - 1)}
}

// rounding turns the elements of one group into codes.
type rounding struct {
	kind        Kind
	scale, bias float32
	top         float32 // the largest affine code
}

func (r rounding) code(v float32) int {
	switch {
	case r.kind == Affine:
		return int(max(0, min(r.top, roundEven((v-r.bias)/r.scale))))
	case r.kind == Q8_0 && r.scale == 0:
		return 128
	case r.kind == Q8_0: // halves go to even
		return int(roundEven(v/r.scale)) + 128
	case r.scale == 0:
		return 8
	}
	return int(min(15, v/r.scale+8.5))
}

// affineGrid is MLX's choice of scale and bias for values in [lo, hi]: the end farther from zero is
// exact, and so is zero; the other end may be cut by up to a step.
func affineGrid(lo, hi float32, bits int) (s, b float32) {
	n := float32(int(1)<<bits - 1)
	s = max((hi-lo)/n, 1e-7)
	edge := lo
	if !(abs(lo) > abs(hi)) {
		edge, s = hi, -s
	}
	q0 := roundEven(edge / s)
	if q0 == 0 {
		return s, 0
	}
	return edge / q0, edge
}

// largest is the first of the elements with the largest magnitude.
func largest(x []float32, lo, hi float32) float32 {
	for _, v := range x {
		if abs(v) == max(hi, -lo) {
			return v
		}
	}
	return 0
}

func abs(x float32) float32       { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
func roundEven(x float32) float32 { return float32(math.RoundToEven(float64(x))) }
