package golden

// How near a GPU must come to the simulation, and where it must have its bits.

import (
	"slices"

	"headroom/kernels"
)

// Tolerance is how far an element may be from the simulation's: Abs + Rel*|element|; both 0: not at
// all.
type Tolerance struct {
	Abs, Rel float64
	Why      string
}

// portable are operators whose kernels have one order of fused multiply-adds and correctly rounded
// operations, without sums over lanes or functions of Metal's library: any device that keeps IEEE
// 754 gives the same bits.
var portable = []string{"add", "sigmoid_mul", "gelu_mul", "combine", "lookup", "rows", "copy",
	"kv_append"}

// Portable tells whether every device should give the simulation's bits for op. A float32 result
// that is near enough without having them does no harm, but tells that a compiler contracts or
// reorders what it was told to leave alone.
func Portable(op kernels.Op) bool { return slices.Contains(portable, op.Name()) }

// onMetal replaces the tolerances of cases that say what the CPU may do: on Metal neither
// activations nor the weights of attention are rounded.
var onMetal = map[string]Tolerance{
	"linear":          {Abs: 2e-6, Rel: 2e-6},
	"experts":         {Abs: 2e-6, Rel: 2e-6},
	"gate_up":         {Abs: 2e-5, Rel: 2e-6}, // a product of two such numbers of up to 4.5
	"paged_attention": {Abs: 1e-5, Rel: 1e-5},
}

// ToleranceOf is twice what the case allows from the exact result, as simulation and GPU may err to
// opposite sides.
func ToleranceOf(c kernels.Case, op kernels.Op) Tolerance {
	t, ok := onMetal[op.Name()]
	if !ok {
		t = Tolerance{Abs: c.AbsTol, Rel: c.RelTol}
	}
	if t.Abs == 0 && t.Rel == 0 {
		return Tolerance{}
	}
	return Tolerance{Abs: 2 * t.Abs, Rel: 2 * t.Rel,
		Why: "both may differ from the exact result, by lanes added up in another order and the " +
			"last places of exp"}
}
