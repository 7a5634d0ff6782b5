package recurrent

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

// fusedShape is a ConvGatedDelta to test. conv is the type of the convolution's state, which may
// differ from that of the recurrence.
type fusedShape struct {
	conv, state          kernels.DType
	hk, hv, dk, dv, taps int
}

func (s fusedShape) channels() int { return 2*s.hk*s.dk + s.hv*s.dv }

func (s fusedShape) name() string {
	return fmt.Sprintf("%s_%s_hk%d_hv%d_dk%d_dv%d_t%d", short(s.conv), short(s.state), s.hk, s.hv,
		s.dk, s.dv, s.taps)
}

// random makes the operator with random operands and two more slots than spans.
func (s fusedShape) random(d kernels.Device, spans []kernels.Span, rows int) *ConvGatedDelta {
	r := rand.New(rand.NewPCG(uint64(s.channels()), uint64(s.taps)))
	values := s.hv * s.dv
	return &ConvGatedDelta{
		X:      kernels.RandomTensor(d, r, rows, s.channels(), 1),
		Weight: kernels.RandomTensor(d, r, s.channels(), s.taps, 1),
		ConvState: randomState(d, r, len(spans)+2,
			stateLayout{s.conv, s.taps - 1, s.channels(), convGroup}, 1),
		A:       kernels.RandomTensor(d, r, rows, s.hv, 1),
		B:       kernels.RandomTensor(d, r, rows, s.hv, 1),
		ALog:    kernels.RandomTensor(d, r, 1, s.hv, 1),
		DtBias:  kernels.RandomTensor(d, r, 1, s.hv, 1),
		State:   randomState(d, r, len(spans)+2, stateLayout{s.state, values, s.dk, s.dk}, 0.3),
		Spans:   spans,
		ConvOut: kernels.NewTensor(d, kernels.F32, rows, s.channels()),
		Out:     kernels.NewTensor(d, kernels.F32, rows, values),
		Hk:      s.hk, Hv: s.hv, Dk: s.dk, Dv: s.dv,
	}
}

// TestConvGatedDeltaIsItsParts expects the bits of Conv followed by GatedDelta, for the outputs and
// both states, on every device and with enough threads to split key heads into parts.
func TestConvGatedDeltaIsItsParts(t *testing.T) {
	var devices []kernels.Device
	for _, isa := range cpu.Available() {
		for _, threads := range []int{1, 2, 9} {
			if kerneltest.RaceDetector && threads < 9 {
				continue // it looks for races, and plain Go is very slow
			}
			devices = append(devices, kernels.NewCPU(cpu.Options{ISA: isa, Threads: threads}))
		}
	}
	defer func() {
		for _, d := range devices {
			d.Close()
		}
	}()
	all := devices
	if kerneltest.HasMetal() && !kerneltest.RaceDetector {
		all = append(all[:len(all):len(all)], synced{kerneltest.Metal(t)})
	}
	spans, rows := spansOf([]int{2, 200, 1, 65, 1, 64}, []int{5, 0, 0, 1, 77, 512})
	for _, s := range []fusedShape{
		{kernels.F32, kernels.F32, 2, 4, 64, 128, 4},
		{kernels.F32, kernels.I8, 4, 4, 80, 129, 2}, // a value row more than two parts of 64
		{kernels.BF16, kernels.BF16, 1, 3, 40, 86, 4},
		{kernels.BF16, kernels.F32, 2, 2, 20, 21, 8},
		{kernels.I8, kernels.I8, 1, 2, 64, 128, 4},
		{kernels.I8, kernels.BF16, 2, 2, 128, 64, 5},
		{kernels.I8, kernels.F32, 2, 2, 40, 48, 4}, // scales that heads share
	} {
		for _, d := range all {
			one, two := s.random(d, spans, rows), s.random(d, spans, rows)
			d.Run(one)
			conv, delta := two.parts()
			d.Run(conv)
			d.Run(delta)
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				what      string
				got, want kernels.Tensor
			}{{"output", one.Out, two.Out}, {"state", one.State, two.State},
				{"convolution's state", one.ConvState, two.ConvState}} {
				if !bytes.Equal(kerneltest.Elements(c.got), kerneltest.Elements(c.want)) {
					t.Errorf("%s: %s: the %s differs from that of Conv and GatedDelta in sequence",
						d.Name(), s.name(), c.what)
				}
			}
		}
	}
}
