package recurrent

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

// convKind is what a case does after the sum of the taps, and the end of its name.
type convKind string

const (
	plain  convKind = ""
	linear convKind = "_linear" // no SiLU (LFM2)
	biased convKind = "_bias"   // a bias before SiLU (Mamba)
)

// convShape is a case.
type convShape struct {
	state          kernels.DType
	channels, taps int
	rows, pos      []int // of each span
	kind           convKind
}

func convCases() []kernels.Case {
	return convCasesOf([]convShape{
		{kernels.F32, 20, 2, []int{1}, []int{0}, plain},
		{kernels.F32, 100, 4, []int{3, 1, 2, 9}, []int{0, 5, 1, 64}, plain},
		{kernels.F32, 259, 3, []int{7, 1}, []int{2, 0}, plain},
		{kernels.F32, 8192, 4, []int{1}, []int{100}, plain},
		{kernels.F32, 8192, 4, []int{1, 1, 1, 1}, []int{100, 7, 1, 0}, plain},
		{kernels.F32, 8192, 4, []int{128}, []int{512}, plain},
		{kernels.BF16, 100, 4, []int{3, 1, 2, 9}, []int{0, 5, 1, 64}, plain},
		{kernels.BF16, 259, 3, []int{7, 1}, []int{2, 0}, plain},
		{kernels.BF16, 8192, 4, []int{1}, []int{100}, plain},
		{kernels.BF16, 8192, 4, []int{128}, []int{512}, plain},
		{kernels.I8, 100, 4, []int{3, 1, 2, 9}, []int{0, 5, 1, 64}, plain},
		{kernels.I8, 259, 3, []int{7, 1}, []int{2, 0}, plain},
		{kernels.I8, 8192, 4, []int{1}, []int{100}, plain},
		{kernels.I8, 8192, 4, []int{128}, []int{512}, plain},
		{kernels.F32, 2048, 3, []int{1}, []int{100}, linear},
		{kernels.F32, 259, 3, []int{70, 1, 2}, []int{2, 0, 1}, linear},
		{kernels.BF16, 259, 3, []int{7, 1}, []int{2, 0}, linear},
		{kernels.I8, 259, 3, []int{7, 1}, []int{2, 0}, linear},
		{kernels.F32, 3328, 4, []int{1}, []int{100}, biased},
		{kernels.F32, 259, 4, []int{70, 1, 2}, []int{2, 0, 1}, biased},
		{kernels.BF16, 259, 4, []int{7, 1}, []int{2, 0}, biased},
		{kernels.I8, 259, 4, []int{7, 1}, []int{2, 0}, biased},
	})
}

func convCasesOf(shapes []convShape) (cases []kernels.Case) {
	for _, s := range shapes {
		spans, rows := spansOf(s.rows, s.pos)
		name := fmt.Sprintf("conv_%s_c%d_t%d_rows%v_pos%v", short(s.state), s.channels, s.taps,
			s.rows, s.pos)
		name += string(s.kind)
		cases = append(cases, kernels.Case{
			Name:   name,
			AbsTol: 3e-6, RelTol: 1e-6,
			Why: "a sum of up to 8 products of size up to 16 in float32 and v_exp within 2e-7, " +
				"the reference is float64",
			Bytes: int64(4*s.channels*(2*rows+s.taps) +
				2*len(spans)*ConvStateCols(s.state, s.taps, s.channels)*s.state.Size()),
			New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
				o := &Conv{
					X:      kernels.RandomTensor(d, r, rows, s.channels, 1),
					Weight: kernels.RandomTensor(d, r, s.channels, s.taps, 1),
					State: randomState(d, r, len(spans)+1,
						stateLayout{s.state, s.taps - 1, s.channels, convGroup}, 1),
					Spans:  spans,
					Out:    kernels.NewTensor(d, kernels.F32, rows, s.channels),
					Linear: s.kind == linear,
				}
				if s.kind == biased {
					o.Bias = kernels.RandomTensor(d, r, 1, s.channels, 1)
				}
				return o, []kernels.Tensor{o.Out, o.State}
			},
		})
	}
	return cases
}

// spansOf returns consecutive spans of the given lengths and positions, and their number of rows.
// The slots are in descending order and do not include slot 0.
func spansOf(rows, pos []int) ([]kernels.Span, int) {
	var spans []kernels.Span
	next := 0
	for i, n := range rows {
		spans = append(spans, kernels.Span{Row: next, Rows: n, Pos: pos[i],
			Slot: int32(len(rows) - i)})
		next += n
	}
	return spans, next
}

// randomState allocates slots of normally distributed values, rounded to the type of l. scale is
// their standard deviation.
func randomState(d kernels.Device, r *rand.Rand, slots int, l stateLayout,
	scale float64) kernels.Tensor {
	t := kernels.NewTensor(d, l.dtype, slots, l.stateCols())
	values := make([]float32, l.cols)
	for i := range slots {
		for row := range l.rows {
			for c := range values {
				values[c] = float32(r.NormFloat64() * scale)
			}
			store(l, slot(t, int32(i)), row, 0, values)
		}
	}
	return t
}

// short returns the name of a state type in command-line flags.
func short(state kernels.DType) string {
	return map[kernels.DType]string{kernels.F32: "f32", kernels.BF16: "bf16",
		kernels.I8: "int8"}[state]
}
