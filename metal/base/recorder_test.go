package base

import (
	"errors"
	"strings"
	"testing"

	"headroom/metal"
	"headroom/metal/msl"
)

type pipeline struct{ metal.Pipeline }

func (*pipeline) Facts() metal.PipelineFacts {
	return metal.PipelineFacts{MaxTotalThreadsPerThreadgroup: 64}
}
func (*pipeline) Kernel() *msl.Kernel { return &msl.Kernel{Name: "k"} }

type buffer struct{ foreign bool }

func (buffer) Bytes() []byte { return make([]byte, 100) }
func (buffer) Label() string { return "x" }

func recorder() *Recorder[*pipeline] {
	return &Recorder[*pipeline]{CheckBuffer: func(b metal.Buffer) error {
		if b.(buffer).foreign {
			return errors.New("it belongs to another device")
		}
		return nil
	}}
}

// TestMistakes checks that a Recorder reports the first mistake, and reports it once.
func TestMistakes(t *testing.T) {
	one := metal.Size{X: 1, Y: 1, Z: 1}
	for _, c := range []struct {
		want   string
		record func(r *Recorder[*pipeline])
	}{
		{"", func(r *Recorder[*pipeline]) {
			r.SetBuffers(30, metal.Binding{Buffer: buffer{}, Offset: 100})
		}},
		{"", func(r *Recorder[*pipeline]) {
			r.SetBuffers(0, metal.Binding{}, metal.Binding{Buffer: buffer{}, Offset: 40, Bytes: 60})
		}},
		{"SetPipeline: got <nil>, expected a pipeline of this device",
			func(r *Recorder[*pipeline]) { r.SetPipeline(nil) }},
		{"expected a pipeline of this device",
			func(r *Recorder[*pipeline]) { r.SetPipeline((*pipeline)(nil)) }},
		{"indices [31, 32), expected them within [0, 31)",
			func(r *Recorder[*pipeline]) { r.SetBuffers(31, metal.Binding{}) }},
		{"indices [-1, 0)", func(r *Recorder[*pipeline]) { r.SetBuffers(-1, metal.Binding{}) }},
		{`SetBuffers: buffer 2: bytes [50, 101) of "x", which has 100`,
			func(r *Recorder[*pipeline]) {
				r.SetBuffers(1, metal.Binding{},
					metal.Binding{Buffer: buffer{}, Offset: 50, Bytes: 51})
			}},
		{"bytes [-4, -4)", func(r *Recorder[*pipeline]) {
			r.SetBuffers(0, metal.Binding{Buffer: buffer{}, Offset: -4})
		}},
		{"buffer 0: it belongs to another device", func(r *Recorder[*pipeline]) {
			r.SetBuffers(0, metal.Binding{Buffer: buffer{foreign: true}})
		}},
		{"a positive multiple of 16",
			func(r *Recorder[*pipeline]) { r.SetThreadgroupMemory(0, 24) }},
		{"an index from 0 to 30", func(r *Recorder[*pipeline]) { r.SetThreadgroupMemory(31, 16) }},
		{"SetBuffers after Commit: call Wait first", func(r *Recorder[*pipeline]) {
			r.Committed = true
			r.SetBuffers(0)
			r.Barrier()
		}},
		{"SetPipeline after Commit",
			func(r *Recorder[*pipeline]) { r.Committed = true; r.SetPipeline(&pipeline{}) }},
		{"SetThreadgroupMemory after Commit",
			func(r *Recorder[*pipeline]) { r.Committed = true; r.SetThreadgroupMemory(0, 16) }},
		{"Barrier after Commit", func(r *Recorder[*pipeline]) { r.Committed = true; r.Barrier() }},
		{"call SetPipeline first",
			func(r *Recorder[*pipeline]) { r.fail("%w", r.checkGrid(one, one)) }},
		{"(1, 0, 1) threadgroups, expected at least one", func(r *Recorder[*pipeline]) {
			r.SetPipeline(&pipeline{})
			r.fail("%w", r.checkGrid(metal.Size{X: 1, Z: 1}, one))
		}},
		{"expected 1 to 64 for kernel k", func(r *Recorder[*pipeline]) {
			r.SetPipeline(&pipeline{})
			r.fail("%w", r.checkGrid(one, metal.Size{X: 65, Y: 1, Z: 1}))
		}},
		{"more than 2^31", func(r *Recorder[*pipeline]) {
			r.SetPipeline(&pipeline{})
			r.fail("%w", r.checkGrid(metal.Size{X: 1 << 16, Y: 1 << 15, Z: 1}, one))
		}},
	} {
		r := recorder()
		c.record(r)
		failed := r.err != nil
		err := r.TakeMistake()
		if failed != (err != nil) || c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, expected %q", err, c.want)
		}
		if r.err != nil || r.TakeMistake() != nil {
			t.Errorf("%q: the mistake is reported twice", c.want)
		}
	}
}

// TestReset checks that the calls of a recording set its state and that Reset clears it.
func TestReset(t *testing.T) {
	r, p := recorder(), &pipeline{}
	r.SetPipeline(p)
	r.SetBuffers(3, metal.Binding{Buffer: buffer{}})
	r.SetThreadgroupMemory(1, 32)
	r.Barrier()
	if r.Pipeline != p || r.Bindings[3].Buffer == nil || r.ThreadgroupBytes[1] != 32 ||
		r.barriers != 1 || r.Bound != 8 || r.Fresh != 8 || r.FreshThreadgroup != 2 {
		t.Errorf("got %+v", r)
	}
	r.Reset()
	if r.Pipeline != nil || r.Bindings[3].Buffer != nil || r.barriers != 0 ||
		r.Bound|r.Fresh|r.FreshThreadgroup != 0 || r.CheckBuffer == nil {
		t.Errorf("after Reset: got %+v", r)
	}
}
