package gpu

import (
	"errors"
	"strings"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/metal"
	"headroom/metal/sim"
)

// picky is a device that refuses to wrap memory, as a Mac may refuse pages of the executable.
type picky struct{ metal.Device }

func (d picky) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if label == "weights" {
		return nil, errors.New("not this memory")
	}
	return d.Device.WrapBuffer(label, memory)
}

// TestReports checks that weights that the device does not wrap are copied and reported, and that
// compiled sources and dispatched pipelines are reported too.
func TestReports(t *testing.T) {
	m, err := sim.Open(sim.Options{Check: true, Seed: 6})
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d, err := New(picky{m})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if bytes, reason := d.Copied(); bytes != 0 || reason != nil ||
		len(d.Sources())+len(d.Pipelines()) != 0 {
		t.Errorf("before anything ran: %d bytes copied (%v), sources %v, pipelines %v", bytes,
			reason, d.Sources(), d.Pipelines())
	}
	const n = 100
	file := cpu.Map(4 * n)
	defer cpu.Unmap(file)
	w := kernels.Tensor{Buffer: d.WrapBuffer(file), DType: kernels.F32, Rows: 1, Cols: n, Stride: n}
	file[0] = 1 // after the copy was made
	a, b := kernels.NewTensor(d, kernels.F32, 1, n), kernels.NewTensor(d, kernels.F32, 1, n)
	d.Run(&add{x: w, out: a, by: 3})
	d.Run(&add{x: w, out: b, by: 4})
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := a.Float32s()[0] + b.Float32s()[n-1]; got != 7 {
		t.Errorf("got %g, expected 3 + 4", got)
	}
	if bytes, reason := d.Copied(); bytes != 4*n || reason == nil ||
		!strings.Contains(reason.Error(), "not this memory") {
		t.Errorf("%d bytes copied (%v), expected %d and the device's reason", bytes, reason, 4*n)
	}
	if s := d.Sources(); len(s) != 1 || s[0].Name != "test.metal" || s[0].Compile <= 0 {
		t.Errorf("sources %+v, expected test.metal and the time it took", s)
	}
	if p := d.Pipelines(); len(p) != 1 || p[0].Kernel != "add" || p[0].Source != "test.metal" ||
		p[0].Threads != 32 || p[0].Facts.ThreadExecutionWidth != 32 {
		t.Errorf("pipelines %+v, expected add with 32 threads", p)
	}
}

// TestNothingFits checks that the first Sync returns the error of a device that refuses the copy.
func TestNothingFits(t *testing.T) {
	m := &recording{}
	d, err := New(stingy{m})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	file := cpu.Map(64)
	defer cpu.Unmap(file)
	b := d.WrapBuffer(file)
	d.Run(&add{x: kernels.Tensor{Buffer: b, DType: kernels.F32, Rows: 1, Cols: 16, Stride: 16},
		out: kernels.Tensor{Buffer: b, DType: kernels.F32, Rows: 1, Cols: 16, Stride: 16}})
	if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "no memory for buffer") {
		t.Errorf("got %v, expected the device's refusal", err)
	}
	if bytes, _ := d.Copied(); bytes != 0 {
		t.Errorf("%d bytes copied, expected none", bytes)
	}
}

type stingy struct{ metal.Device }

func (stingy) WrapBuffer(label string, _ []byte) (metal.Buffer, error) {
	return nil, errors.New("no memory for " + label)
}
