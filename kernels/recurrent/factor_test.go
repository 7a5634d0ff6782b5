package recurrent

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
)

// A state in float32 is numbers and a factor, and which of the two a decay goes into is each device's own affair. So what the cases leave of it is
// compared by value here, not in the cases.

// TestFinalStates: the float32 states that the cases leave behind have the reference's values, within the cases' tolerances, and the same bits with any
// number of threads. Slots that no span names stay as they are.
func TestFinalStates(t *testing.T) {
	for _, c := range slices.Concat(gatedDeltaCases(), convGatedDeltaCases()) {
		run := func(d kernels.Device) *GatedDelta {
			op, _ := c.New(d, c.Source())
			d.Run(op)
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			if o, ok := op.(*ConvGatedDelta); ok {
				_, delta := o.parts()
				return delta
			}
			return op.(*GatedDelta)
		}
		reference := kernels.NewReference()
		want := run(reference)
		if want.State.DType != kernels.F32 {
			continue
		}
		for name, d := range devices(t) {
			if name == "reference" {
				continue
			}
			got := run(d)
			for slot := range int32(got.State.Rows) {
				values := got.values(slot)
				for i, w := range want.values(slot) {
					if !(math.Abs(float64(values[i]-w)) <= c.AbsTol+c.RelTol*math.Abs(float64(w))) {
						t.Fatalf("%s: %s: slot %d, value %d is %g, expected %g", c.Name, name, slot, i, values[i], w)
					}
				}
			}
		}
		for _, isa := range cpu.Available() {
			var one []byte
			for _, threads := range []int{1, 3} {
				d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: threads})
				state := run(d).State.Elements()
				d.Close()
				if one == nil {
					one = state
				} else if !bytes.Equal(state, one) {
					t.Errorf("%s: %s: %d threads leave other bits than one", c.Name, isa, threads)
				}
			}
		}
	}
}

// TestLongDecay: 2,048 tokens through heads that keep so much of their state with each token, all of it or nothing, or now this and now that; the error
// of all outputs against a state in float64, by root mean square. Bounds are what kernels without factors had, measured and rounded up: what is seen
// is how exact g is.
func TestLongDecay(t *testing.T) {
	const tokens, dk, dv = 2048, 128, 33
	list := []struct{ g, bound float64 }{{0.2, 3e-7}, {0.5, 3e-7}, {0.8, 3e-7}, {0.95, 4e-7}, {0.99, 4e-6}, {0.999, 1.2e-5}, {0.9999, 6e-6}, {1, 6e-7}, {0, 3e-7}, {math.NaN(), 1e-6}}
	heads := len(list)
	run := func(d kernels.Device) []float32 {
		r := rand.New(rand.NewPCG(9, 10))
		o := &GatedDelta{
			QKV: kernels.RandomTensor(d, r, tokens, 2*dk+heads*dv, 1), A: kernels.NewTensor(d, kernels.F32, tokens, heads), B: kernels.RandomTensor(d, r, tokens, heads, 1),
			ALog: kernels.NewTensor(d, kernels.F32, 1, heads), DtBias: kernels.NewTensor(d, kernels.F32, 1, heads),
			State: kernels.NewTensor(d, kernels.F32, 1, GatedDeltaStateCols(kernels.F32, heads*dv, dk)), Spans: []kernels.Span{{Rows: tokens}},
			Out: kernels.NewTensor(d, kernels.F32, tokens, heads*dv), Hk: 1, Hv: heads, Dk: dk, Dv: dv,
		}
		for h, head := range list { // g = exp(-exp(ALog) * log 2)
			switch {
			case head.g == 1:
				o.ALog.Row(0)[h] = -90
			case head.g == 0:
				o.ALog.Row(0)[h] = 10
			case math.IsNaN(head.g): // from nearly 1 to e^-20
				for i := range tokens {
					o.A.Row(i)[h] = float32(r.NormFloat64() * 8)
				}
			default:
				o.ALog.Row(0)[h] = float32(math.Log(-math.Log(head.g) / math.Ln2))
			}
		}
		d.Run(o)
		return slices.Clone(o.Out.Float32s())
	}
	all := devices(t)
	want := run(all["reference"])
	for name, d := range all {
		got := run(d)
		for h, head := range list {
			var off, size float64
			for i := range want {
				if i%(heads*dv)/dv == h {
					off += math.Pow(float64(got[i]-want[i]), 2)
					size += math.Pow(float64(want[i]), 2)
				}
			}
			e := math.Sqrt(off / size)
			t.Logf("%s, g = %g: off by %.3g", name, head.g, e)
			if !(e <= head.bound) {
				t.Errorf("%s, g = %g: off by %.3g, expected at most %g", name, head.g, e, head.bound)
			}
		}
	}
}
