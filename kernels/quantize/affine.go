package quantize

// The definition of affine groups, in scalar Go. The arithmetic is float32 throughout: Go rounds
// each operation if its result is converted explicitly. affine.c computes the same bits.

import "math"

// leastScale is the smallest step of an affine group.
const leastScale = float32(1e-7)

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

// roundAway rounds to the nearest integer, and ties away from zero.
func roundAway(v float32) float32 { return float32(math.Round(float64(v))) }
