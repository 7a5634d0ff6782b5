package probe

import (
	"errors"
	"strings"
	"testing"

	"headroom/metal"
	"headroom/metal/sim"
)

func simulated(t *testing.T, o sim.Options) metal.Device {
	t.Helper()
	m, err := sim.Open(o)
	if errors.Is(err, sim.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func newProbe(t *testing.T, d metal.Device) *Probe {
	t.Helper()
	p, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSimulation checks that the simulated device passes all probes, twice, in both modes.
func TestSimulation(t *testing.T) {
	for _, o := range []sim.Options{{Check: true, Seed: 4}, {}} {
		p := newProbe(t, simulated(t, o))
		for range 2 {
			for _, r := range p.Run() {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Name, r.Err)
				}
			}
		}
		n, err := p.Numbers()
		if err != nil || n.Contracts || !n.Denormals || n.Exp > 1 || n.Divide > 0.5 ||
			n.Sqrt > 0.5 || n.Sum != "neighbours" {
			t.Errorf("got %+v, %v; expected no contraction and correct rounding", n, err)
		}
		x, err := p.Times()
		if err != nil || x.Empty <= 0 || x.EmptyOnGPU <= 0 || x.EmptyOnGPU > x.Empty ||
			x.Encode <= 0 || x.Run < x.Encode {
			t.Errorf("times %+v, %v", x, err)
		}
		if took, log := p.Compile(); took <= 0 || log != "" {
			t.Errorf("compiled in %s, log %q", took, log)
		}
	}
}

// faulty is a device whose binding to Metal has one bug.
type faulty struct {
	metal.Device
	fault string
}

type faultyCommands struct {
	metal.Commands
	fault string
}

func (d faulty) NewCommands() metal.Commands {
	return &faultyCommands{d.Device.NewCommands(), d.fault}
}

func (d faulty) WrapBuffer(label string, memory []byte) (metal.Buffer, error) {
	if d.fault == "copies" {
		return d.Device.NewBuffer(label, len(memory))
	}
	return d.Device.WrapBuffer(label, memory)
}

func (c *faultyCommands) Dispatch(label string, groups, threads metal.Size) {
	if c.fault == "swapped sizes" {
		groups.X, groups.Y = groups.Y, groups.X
	}
	c.Commands.Dispatch(label, groups, threads)
}

func (c *faultyCommands) SetBuffers(first int, bindings ...metal.Binding) {
	if c.fault == "no offsets" {
		for i := range bindings {
			bindings[i].Offset = 0
		}
	}
	c.Commands.SetBuffers(first, bindings...)
}

func (c *faultyCommands) Barrier() {
	if c.fault != "no barriers" {
		c.Commands.Barrier()
	}
}

func (c *faultyCommands) Commit(done func(error)) {
	if c.fault == "no handler" {
		done = nil
	}
	c.Commands.Commit(done)
}

// TestMistakesAreFound checks that each bug of a binding fails the probe that looks for it.
func TestMistakesAreFound(t *testing.T) {
	m := simulated(t, sim.Options{Check: true, Seed: 4})
	for fault, want := range map[string]string{
		"swapped sizes": "sizes and positions in three dimensions",
		"no offsets":    "parameters, function constants, offsets, half",
		"no barriers":   "barriers between dispatches",
		"no handler":    "order of commits, completion handler",
		"copies":        "wrapped memory",
	} {
		var failed []string
		for _, r := range newProbe(t, faulty{m, fault}).Run() {
			if r.Err != nil {
				failed = append(failed, r.Name)
			}
		}
		if !strings.Contains(strings.Join(failed, "; "), want) {
			t.Errorf("%s: failed probes: %q, expected %q", fault, failed, want)
		}
	}
}
