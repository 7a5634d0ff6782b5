package attention

import (
	"encoding/binary"
	"math"
)

// The layout of quantized pages and the rules of quantization, both in plain Go. kv_format.h and
// kv_quantize.h do the same in C, with the same bits.
//
// A page of a head consists of strips of 16 positions. A strip begins with the scales, float16
// [groups][16 positions], and for Affine the biases in the same layout. The codes follow. Codes of
// 3, 5 and 6 bits are split into planes of 2+1, 4+1 and 4+2 bits, low bits first, so that shifts of
// whole bytes give a vector of 16 codes.
//
//   - K has bundles of 32 dimensions, 64*bits bytes each. A plane of w bits is w rows of
//     [16 positions][4 bytes]. Dimensions 4q to 4q+3 are in the bytes of row q*w/8, starting at bit
//     q*w%8. A byte belongs to one position, so positions can be written independently.
//   - V has bundles of 32 dimensions and 4 positions, 16*bits bytes each, and the four bundles of
//     the same dimensions are consecutive. A plane of w bits is [4*w lanes][4 bytes]. Dimension i
//     is in lane i%(4*w), starting at bit i/(4*w)*w. Positions 0, 1, 2 and 3 are bytes 0, 2, 1 and
//     3.
//
// So the 4 bytes of a lane are 4 terms of the sum over dimensions of K or over positions of V, as
// the instructions for integer dot products expect them.
//
// The elements of a strip of zero bytes are zeros, so attention may read fresh pages.

// stripTokens is the number of positions in a strip. kv_page.h repeats it.
const stripTokens = 16

// strip is one position (lane) of a strip.
type strip struct {
	bytes   []byte // all 16 positions
	f       Format
	keys    bool
	headDim int
	lane    int
}

func (s *strip) read(dst []float32) {
	for g := range s.headDim / s.f.group() {
		// The sum is exact in float64: codes have 8 bits, parameters 11, and their exponents differ
		// by at most 40. So it is rounded only once, like a fused multiply-add.
		scale, bias := s.params(g)
		for i := range s.f.group() {
			at := g*s.f.group() + i
			dst[at] = float32(float64(s.code(at))*scale + bias)
		}
	}
}

// params returns the scale and the bias of group g.
func (s *strip) params(g int) (scale, bias float64) {
	groups := s.headDim / s.f.group()
	scale = float64(fromFloat16(binary.LittleEndian.Uint16(s.bytes[2*(g*stripTokens+s.lane):])))
	if zero := s.f.zero(); zero > 0 {
		return scale, -float64(zero) * scale
	}
	return scale, float64(fromFloat16(
		binary.LittleEndian.Uint16(s.bytes[2*((groups+g)*stripTokens+s.lane):])))
}

// planes returns the widths of the planes of a code, low bits first. high is 0 if there is one
// plane.
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

// field returns the byte that holds dimension dim, and the bit in it, in the plane that begins at
// byte base and has the given width in bits.
func (s *strip) field(dim, base, width int) (at, shift int) {
	i := dim % bundleDims
	if s.keys {
		q := i / 4
		return base + q*width/8*4*stripTokens + 4*s.lane + i%4, q * width % 8
	}
	lanes := 4 * width
	return base + i%lanes*4 + byteOfLane[s.lane%4], i / lanes * width
}

// byteOfLane has the bytes of a lane of V that hold positions 0 to 3.
var byteOfLane = [4]int{0, 2, 1, 3}

// bundleDims is the number of dimensions in a bundle.
const bundleDims = 32

// bundle returns the byte where the bundle of dim begins, and the size of a plane per bit of width.
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

// write quantizes a position. Elements saturate to the range of float16, as in a plain cache. A
// group with a NaN becomes NaN.
func (s *strip) write(src []float32) {
	size, groups := s.f.group(), s.headDim/s.f.group()
	var buffer [128]float32 // the largest group
	x := buffer[:size]
	for g := range groups {
		nan := false
		for i, v := range src[g*size:][:size] {
			x[i] = max(-maxFloat16, min(maxFloat16, v))
			nan = nan || v != v
		}
		scale, bias := uint16(0x7e00), uint16(0x7e00)
		if !nan {
			var r rounding
			scale, bias, r = s.f.quantize(x)
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

// clear zeroes the parameters and codes of a position.
func (s *strip) clear() {
	groups := s.headDim / s.f.group()
	for g := range groups * s.f.params() {
		clear(s.bytes[2*(g*stripTokens+s.lane):][:2])
	}
	for dim := range s.headDim {
		s.setCode(dim, 0)
	}
}

// quantize chooses the parameters of a group of finite elements, and r, which gives their codes.
// All arithmetic is float32.
func (f Format) quantize(x []float32) (scale, bias uint16, r rounding) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	switch f.Kind {
	case Q8_0: // as in ggml, codes follow from the unrounded scale
		d := max(hi, -lo)/127 + 0 // 0, never -0
		return toFloat16(d), 0, rounding{kind: Q8_0, scale: d}
	case Q4_0:
		d := largest(x, lo, hi)/-8 + 0
		return toFloat16(d), 0, rounding{kind: Q4_0, scale: d}
	}
	s, b := affineGrid(lo, hi, f.Bits)
	// Codes follow from the rounded parameters, because a code can often compensate for the
	// rounding of the grid.
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
	case r.kind == Q8_0: // halves round to even
		return int(roundEven(v/r.scale)) + 128
	case r.scale == 0:
		return 8
	}
	return int(min(15, v/r.scale+8.5))
}

// affineGrid chooses the scale and bias for values in [lo, hi] as MLX does: zero and the end
// farther from zero are exact, and the other end may be cut off by up to one step.
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

// largest returns the first element with the largest magnitude.
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
