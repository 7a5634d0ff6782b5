package recurrent

import (
	"fmt"
	"math/rand/v2"

	"headroom/kernels"
)

func convGatedDeltaCases() []kernels.Case {
	var cases []kernels.Case
	for _, s := range []struct {
		gatedDeltaShape
		taps int
	}{
		{gatedDeltaShape{kernels.F32, 2, 4, 40, 24, []int{70, 1, 1, 66}, []int{7, 0, 3, 0}}, 4},
		{gatedDeltaShape{kernels.F32, 16, 32, 128, 128, []int{1}, []int{100}}, 4},
		{gatedDeltaShape{kernels.F32, 16, 32, 128, 128, []int{128}, []int{512}}, 4},
		{gatedDeltaShape{kernels.BF16, 1, 3, 20, 37, []int{3, 130}, []int{1, 0}}, 3},
		{gatedDeltaShape{kernels.I8, 2, 4, 64, 64, []int{2, 70}, []int{9, 0}}, 4},
		// Here heads share scales of the convolution's state.
		{gatedDeltaShape{kernels.I8, 1, 1, 40, 24, []int{5}, []int{6}}, 5},
	} {
		cases = append(cases, s.toCaseAfterConv(s.taps))
	}
	return cases
}

// toCaseAfterConv returns the case of s after a convolution with taps taps.
func (s gatedDeltaShape) toCaseAfterConv(taps int) kernels.Case {
	spans, rows := spansOf(s.rows, s.pos)
	alone, channels := s.toCase(), 2*s.hk*s.dk+s.hv*s.dv
	return kernels.Case{
		Name:   fmt.Sprintf("conv_%s_t%d", alone.Name, taps),
		AbsTol: 1.5 * alone.AbsTol, RelTol: 1.5 * alone.RelTol,
		Why: "as for gated_delta, with values that are silu of a sum of taps products, few of " +
			"them over 1.5, and with the error of conv",
		Bytes: alone.Bytes, Flops: alone.Flops,
		New: func(d kernels.Device, r *rand.Rand) (kernels.Op, []kernels.Tensor) {
			op, outputs := alone.New(d, r)
			delta := op.(*GatedDelta)
			o := &ConvGatedDelta{
				X:      delta.QKV,
				Weight: kernels.RandomTensor(d, r, channels, taps, 1),
				ConvState: randomState(d, r, len(spans)+1,
					stateLayout{s.state, taps - 1, channels, convGroup}, 1),
				A: delta.A, B: delta.B, ALog: delta.ALog, DtBias: delta.DtBias,
				State: delta.State, Spans: spans,
				ConvOut: kernels.NewTensor(d, kernels.F32, rows, channels), Out: delta.Out,
				Hk: s.hk, Hv: s.hv, Dk: s.dk, Dv: s.dv,
			}
			return o, append(outputs, o.ConvState)
		},
	}
}
