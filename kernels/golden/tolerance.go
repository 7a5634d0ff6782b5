package golden

// How close a GPU must come to the simulation, and where it must have the same bits.

import (
	"slices"

	"headroom/kernels"
)

// Tolerance allows an element to differ from the simulation's by Abs + Rel*|element|. The zero
// value requires equal bits.
type Tolerance struct {
	Abs, Rel float64
	Why      string
}

// portable lists the operators whose kernels use fused multiply-adds and correctly rounded
// operations in a fixed order, without sums over lanes or functions of Metal's library. Any device
// that conforms to IEEE 754 gives the same bits for them.
var portable = []string{"add", "sigmoid_mul", "gelu_mul", "combine", "lookup", "rows",
	"columns", "copy", "kv_append"}

// Portable reports whether every device should give the simulation's bits for op. A float32 result
// within the tolerance but with other bits is harmless. It shows that the compiler contracts or
// reorders operations despite safe math mode.
func Portable(op kernels.Op) bool { return slices.Contains(portable, op.Name()) }

// onMetal replaces the cases' tolerances for operators that round activations or attention weights
// on the CPU. Metal rounds neither.
var onMetal = map[string]Tolerance{
	"linear":          {Abs: 2e-6, Rel: 2e-6},
	"experts":         {Abs: 2e-6, Rel: 2e-6},
	"gate_up":         {Abs: 2e-5, Rel: 2e-6}, // a product of two such numbers of up to 4.5
	"paged_attention": {Abs: 1e-5, Rel: 1e-5},
}

// ToleranceOf returns twice the tolerance of the case, which is relative to the exact result:
// simulation and GPU may err in opposite directions.
func ToleranceOf(c kernels.Case, op kernels.Op) Tolerance {
	t, ok := onMetal[op.Name()]
	if !ok {
		t = Tolerance{Abs: c.AbsTol, Rel: c.RelTol}
	}
	if t.Abs == 0 && t.Rel == 0 {
		return Tolerance{}
	}
	return Tolerance{Abs: 2 * t.Abs, Rel: 2 * t.Rel,
		Why: "both may differ from the exact result, by the order of sums over lanes and the " +
			"last digits of exp"}
}
