package recurrent

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/kerneltest"
)

// The exactness rule for operators with a state: outputs and final state have the same bits for
// every split of a sequence into spans, with any other sequences in the batch, in any slot, and
// this holds for every type of state.

// subject is an operator to test. It reads rows of inputs floats and writes rows of outputs floats,
// and its slots have state elements of dtype.
type subject struct {
	name                   string
	inputs, outputs, state int
	dtype                  kernels.DType
	build                  func(d kernels.Device, r *rand.Rand) func(in, state, out kernels.Tensor,
		spans []kernels.Span) kernels.Op
}

func subjects() (list []subject) {
	for _, dtype := range []kernels.DType{kernels.F32, kernels.BF16, kernels.I8} {
		list = append(list, subjectsIn(dtype)...)
	}
	return list
}

func subjectsIn(dtype kernels.DType) []subject {
	list := []subject{}
	for _, taps := range []int{2, 3, 4, 5} {
		const channels = 275  // more than a block, and no multiple of 16
		linear := taps == 3   // as in LFM2
		withBias := taps == 4 // as in Mamba
		list = append(list, subject{fmt.Sprintf("conv_%s_taps%d", short(dtype), taps), channels,
			channels, ConvStateCols(dtype, taps, channels), dtype,
			func(d kernels.Device, r *rand.Rand) func(in, state, out kernels.Tensor,
				spans []kernels.Span) kernels.Op {
				weight := kernels.RandomTensor(d, r, channels, taps, 1)
				var bias kernels.Tensor
				if withBias {
					bias = kernels.RandomTensor(d, r, 1, channels, 1)
				}
				return func(in, state, out kernels.Tensor, spans []kernels.Span) kernels.Op {
					return &Conv{X: in, Weight: weight, Bias: bias, State: state, Spans: spans,
						Out: out, Linear: linear}
				}
			}})
	}
	for _, s := range []struct{ hk, hv, dk, dv int }{{1, 2, 32, 32}, {2, 2, 128, 48},
		{1, 3, 24, 21}} {
		width := 2*s.hk*s.dk + s.hv*s.dv
		list = append(list, subject{fmt.Sprintf("gated_delta_%s_hk%d_hv%d_dk%d_dv%d", short(dtype),
			s.hk, s.hv, s.dk, s.dv),
			width + 2*s.hv, s.hv * s.dv, StateCols(dtype, s.hv*s.dv, s.dk), dtype,
			func(d kernels.Device, r *rand.Rand) func(in, state, out kernels.Tensor,
				spans []kernels.Span) kernels.Op {
				aLog, dtBias := kernels.RandomTensor(d, r, 1, s.hv, 1),
					kernels.RandomTensor(d, r, 1, s.hv, 1)
				return func(in, state, out kernels.Tensor, spans []kernels.Span) kernels.Op {
					return &GatedDelta{QKV: in.Columns(0, width), A: in.Columns(width, width+s.hv),
						B:    in.Columns(width+s.hv, width+2*s.hv),
						ALog: aLog, DtBias: dtBias, State: state, Spans: spans, Out: out, Hk: s.hk,
						Hv: s.hv, Dk: s.dk, Dv: s.dv}
				}
			}})
	}
	for _, s := range []ssmShape{{heads: 2, groups: 1, dim: 32, n: 32},
		{heads: 2, groups: 2, dim: 24, n: 128}, {heads: 3, groups: 1, dim: 21, n: 23}} {
		width := s.heads*s.dim + 2*s.groups*s.n
		list = append(list, subject{fmt.Sprintf("ssm_%s_h%d_g%d_d%d_n%d", short(dtype), s.heads,
			s.groups, s.dim, s.n), width + s.heads, s.heads * s.dim,
			StateCols(dtype, s.heads*s.dim, s.n), dtype,
			func(d kernels.Device, r *rand.Rand) func(in, state, out kernels.Tensor,
				spans []kernels.Span) kernels.Op {
				all := s.op(d, r, 1)
				return func(in, state, out kernels.Tensor, spans []kernels.Span) kernels.Op {
					o := *all
					o.X, o.Dt = in.Columns(0, width), in.Columns(width, width+s.heads)
					o.State, o.Spans, o.Out = state, spans, out
					return &o
				}
			}})
	}
	for _, s := range []fusedShape{{dtype, dtype, 2, 2, 64, 64, 4},
		{dtype, dtype, 1, 3, 24, 21, 3}} {
		// A slot is that of the convolution followed by that of the recurrence.
		width, split := s.channels(), ConvStateCols(dtype, s.taps, s.channels())
		list = append(list, subject{"conv_gated_delta_" + s.name(), width + 2*s.hv, s.hv * s.dv,
			split + StateCols(dtype, s.hv*s.dv, s.dk), dtype,
			func(d kernels.Device, r *rand.Rand) func(in, state, out kernels.Tensor,
				spans []kernels.Span) kernels.Op {
				weight, aLog, dtBias := kernels.RandomTensor(d, r, width, s.taps, 1),
					kernels.RandomTensor(d, r, 1, s.hv, 1), kernels.RandomTensor(d, r, 1, s.hv, 1)
				return func(in, state, out kernels.Tensor, spans []kernels.Span) kernels.Op {
					return &ConvGatedDelta{X: in.Columns(0, width), Weight: weight,
						ConvState: state.Columns(0, split),
						A:         in.Columns(width, width+s.hv),
						B:         in.Columns(width+s.hv, width+2*s.hv),
						ALog:      aLog, DtBias: dtBias, State: state.Columns(split, state.Cols),
						Spans: spans, ConvOut: kernels.NewTensor(d, kernels.F32, in.Rows, width),
						Out: out, Hk: s.hk, Hv: s.hv, Dk: s.dk, Dv: s.dv}
				}
			}})
	}
	return list
}

// piece is tokens [from, to) of sequence seq. A batch is a list of pieces, a plan a list of
// batches.
type piece struct{ seq, from, to int }

const slots = 4

// tokens is longer than one window of GatedDelta, so that plans differ in their windows too.
const tokens = windowRows + 7

type plan struct {
	name    string
	batches [][]piece
}

// play fills the slots with NaN, runs a plan on d and returns the outputs and the final state of
// sequence 0. Sequence i has slot i+shift.
func play(s subject, d kernels.Device, shift int, plan [][]piece) (out, state []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	build := s.build(d, r)
	var sequences []kernels.Tensor
	for range slots {
		sequences = append(sequences, kernels.RandomTensor(d, r, tokens, s.inputs, 1))
	}
	states := kernels.NewTensor(d, s.dtype, slots, s.state)
	for i := range states.Bytes() {
		states.Bytes()[i] = 0xff // NaN, or codes whose scale is NaN
	}
	slot := func(seq int) int { return (seq + shift) % slots }
	for _, batch := range plan {
		rows := 0
		for _, p := range batch {
			rows += p.to - p.from
		}
		in, outs := kernels.NewTensor(d, kernels.F32, rows, s.inputs),
			kernels.NewTensor(d, kernels.F32, rows, s.outputs)
		var spans []kernels.Span
		row := 0
		for _, p := range batch {
			n := p.to - p.from
			copy(in.RowRange(row, row+n).Float32s(),
				sequences[p.seq].RowRange(p.from, p.to).Float32s())
			spans = append(spans, kernels.Span{Row: row, Rows: n, Pos: p.from,
				Slot: int32(slot(p.seq))})
			row += n
		}
		d.Run(build(in, states, outs, spans))
		if err := d.Sync(); err != nil {
			panic(err)
		}
		for i, p := range batch {
			if p.seq == 0 {
				out = append(out, kerneltest.Elements(
					outs.RowRange(spans[i].Row, spans[i].Row+spans[i].Rows))...)
			}
		}
	}
	return out, kerneltest.Elements(states.RowRange(slot(0), slot(0)+1))
}

// plans are ways to compute sequence 0 that must give the same bits as a single span.
func plans() []plan {
	list := []plan{
		{"batched", [][]piece{{{1, 0, 9}, {0, 0, tokens}, {2, 0, 3}}}},
		{"batched and cut", [][]piece{{{1, 0, 60}, {0, 0, 30}},
			{{1, 60, 61}, {2, 0, 8}, {0, 30, 31}, {3, 0, 1}}, {{0, 31, tokens}, {2, 8, 9}}}},
	}
	single := plan{name: "token by token"}
	for i := range tokens {
		single.batches = append(single.batches, []piece{{0, i, i + 1}})
		if i > 0 {
			list = append(list, plan{fmt.Sprintf("cut at %d", i),
				[][]piece{{{0, 0, i}}, {{0, i, tokens}}}})
		}
	}
	return append(list, single)
}

// fewPlans are plans with only two of the single cuts.
func fewPlans() []plan {
	return slices.DeleteFunc(plans(), func(p plan) bool {
		return strings.HasPrefix(p.name, "cut") && p.name != "cut at 8" && p.name != "cut at 33"
	})
}

// TestExact checks the exactness rule on every instruction set.
func TestExact(t *testing.T) {
	list := plans()
	if kerneltest.RaceDetector { // plain Go is very slow
		list = fewPlans()
	}
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			var native []byte
			for _, isa := range cpu.Available() {
				out := testPlans(t, s, fmt.Sprint(isa), list,
					func(i int, use func(kernels.Device)) {
						d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 1 + i%3})
						defer d.Close()
						use(d)
					})
				if isa == cpu.Generic {
					continue
				}
				if native == nil {
					native = out
				}
				if !bytes.Equal(native, out) {
					t.Errorf("%s: differs from %s", isa, cpu.Available()[1])
				}
			}
		})
	}
}

// TestMetalExact is TestExact on the simulated Metal device.
func TestMetalExact(t *testing.T) {
	few := fewPlans()
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			d := kerneltest.Metal(t)
			testPlans(t, s, d.Name(), few, func(_ int, use func(kernels.Device)) { use(d) })
		})
	}
}

// testPlans compares every plan, run on device i, with a single span on device 0. It returns the
// outputs and the state of the latter.
func testPlans(t *testing.T, s subject, name string, list []plan,
	on func(i int, use func(kernels.Device))) []byte {
	var wantOut, wantState, out, state []byte
	on(0, func(d kernels.Device) {
		wantOut, wantState = play(s, d, 0, [][]piece{{{0, 0, tokens}}})
	})
	if at, _, _ := kerneltest.Differ(wantOut, wantOut, 0, 0); at >= 0 {
		// only a NaN differs from itself
		t.Errorf("%s: NaN in the output: a span at position 0 must not read its slot", name)
	}
	for i, p := range list {
		on(i, func(d kernels.Device) { out, state = play(s, d, i, p.batches) })
		if !bytes.Equal(out, wantOut) {
			t.Fatalf("%s: %s: outputs differ from those of a single span", name, p.name)
		}
		if !bytes.Equal(state, wantState) {
			t.Fatalf("%s: %s: the final state differs from that of a single span", name, p.name)
		}
	}
	return append(wantOut, wantState...)
}
