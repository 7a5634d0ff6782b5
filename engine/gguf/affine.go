package gguf

// The types whose blocks are groups of MLX's affine mode: 32 elements with codes q, a scale s and a
// bias b, of which each is sq + b. The codes stay as they are.
//
//	Q4_0  s = d        b = -8d     exact in float16: b has the bits of d, and another exponent
//	Q5_0  s = d        b = -16d    the same
//	Q8_0  s = d        b = -128d   the same; codes are signed bytes + 128
//	Q4_1  s = d        b = m       exact in float16
//	Q5_1  s = d        b = m       the same
//	Q4_K  s = d scale  b = -dmin least  exact in float32: 11 bits times 6. In float16, each is
//	Q5_K                                rounded to 11 bits: by at most 2^-12 of it
//
// In float16, b overflows to infinity if |d| is larger than 65504/128. No model has such a scale;
// a conversion refuses it, because it checks that scales and biases are finite.

// affine says how the blocks of a type become groups.
type affine struct {
	bits int
	// exact says that float16 holds every scale and bias.
	exact bool
	// group writes the codes of group i of a block, and returns its scale and bias.
	group func(codes []uint8, block []byte, i int) (scale, bias float32)
}

// AffineGroup is the number of elements of the groups that Affine gives.
const AffineGroup = 32

var (
	affineQ40 = &affine{4, true, func(codes []uint8, b []byte, _ int) (float32, float32) {
		halves(codes, b[2:])
		return half(b), -8 * half(b)
	}}
	affineQ41 = &affine{4, true, func(codes []uint8, b []byte, _ int) (float32, float32) {
		halves(codes, b[4:])
		return half(b), half(b[2:])
	}}
	affineQ50 = &affine{5, true, func(codes []uint8, b []byte, _ int) (float32, float32) {
		halves(codes, b[6:])
		fifthBits(codes, b[2:])
		return half(b), -16 * half(b)
	}}
	affineQ51 = &affine{5, true, func(codes []uint8, b []byte, _ int) (float32, float32) {
		halves(codes, b[8:])
		fifthBits(codes, b[4:])
		return half(b), half(b[2:])
	}}
	affineQ80 = &affine{8, true, func(codes []uint8, b []byte, _ int) (float32, float32) {
		for i, q := range b[2:34] {
			codes[i] = q ^ 0x80
		}
		return half(b), -128 * half(b)
	}}
	affineQ4K = &affine{4, false, func(codes []uint8, b []byte, i int) (float32, float32) {
		codesQ4K(codes, b, i)
		return runK(b, i)
	}}
	affineQ5K = &affine{5, false, func(codes []uint8, b []byte, i int) (float32, float32) {
		codesQ5K(codes, b, i)
		return runK(b, i)
	}}
)

// AffineBits returns the bits of the codes of the type's groups; 0: its blocks are no groups of
// MLX's affine mode.
func (t Type) AffineBits() int {
	if a := types[t].affine; a != nil {
		return a.bits
	}
	return 0
}

// ExactInFloat16 reports whether float16 holds every scale and bias of the type's groups.
func (t Type) ExactInFloat16() bool { return types[t].affine != nil && types[t].affine.exact }

// Affine calls each for the groups of AffineGroup elements in whole blocks, in their order. The
// codes are valid until it returns. The type must have AffineBits.
func (t Type) Affine(blocks []byte, each func(i int, codes []uint8, scale, bias float32)) {
	info := types[t]
	var codes [AffineGroup]uint8
	perBlock := info.elements / AffineGroup
	for at := 0; at*info.bytes < len(blocks); at++ {
		block := blocks[at*info.bytes:][:info.bytes]
		for i := range perBlock {
			scale, bias := info.affine.group(codes[:], block, i)
			each(at*perBlock+i, codes[:], scale, bias)
		}
	}
}
