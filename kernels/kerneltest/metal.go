package kerneltest

// Cases on the simulated Metal device in checking mode. It runs the same .metal text as a Mac.

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/sim"
)

// RunMetal compares every case whose operator has a Metal kernel with the reference. It runs them
// in checking mode, with two orders of threads and dispatches, which must give the same bits. A
// kernel that no case dispatches is an error. Without clang the test is skipped. With the build tag
// nv the cases also run on an NVIDIA GPU.
func RunMetal(t *testing.T, cases []kernels.Case) {
	t.Helper()
	if runNV(t, cases) {
		return
	}
	// reached has the kernels of all compiled sources, true if a case has dispatched them.
	reached := map[string]bool{}
	all := true
	checking := []metal.Device{simulated(t, sim.Options{Check: true, Seed: 1}),
		simulated(t, sim.Options{Check: true, Seed: 2})}
	reference := kernels.NewReference()
	defer reference.Close()
	for _, c := range cases {
		op, outs := c.New(reference, c.Rand())
		if _, ok := op.(gpu.Op); !ok {
			continue
		}
		ran := false
		t.Run(c.Name, func(t *testing.T) {
			ran = true
			want, err := run(reference, op, outs)
			if err != nil {
				t.Fatal(err)
			}
			var first []output
			for _, m := range checking {
				got := metalOutputs(t, m, c, reached)
				if got == nil {
					return
				}
				if first == nil {
					first = got
					compare(t, m.Facts().Name, c, got, want)
				} else if !slices.EqualFunc(first, got, equal) {
					t.Errorf("%s: another order of threads and dispatches gives other bits",
						m.Facts().Name)
				}
			}
		})
		all = all && ran
	}
	for _, k := range slices.Sorted(maps.Keys(reached)) {
		if all && !reached[k] {
			// only if all cases ran: -run and -failfast leave some out
			t.Errorf("no case dispatches kernel %s: add a case, or remove the kernel", k)
		}
	}
}

// Metal returns a simulated Metal device in checking mode, which is closed when the test ends.
// Without clang it skips the test.
func Metal(t *testing.T) kernels.Device {
	t.Helper()
	d, err := gpu.New(simulated(t, sim.Options{Check: true, Seed: 3}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// Devices returns all devices that must follow the exactness rule: each instruction set of the CPU
// with three threads and, if clang is installed, a simulated Metal device in checking mode. They
// are closed when the test ends.
func Devices(t *testing.T) []kernels.Device {
	t.Helper()
	var devices []kernels.Device
	for _, isa := range cpu.Available() {
		d := kernels.NewCPU(cpu.Options{ISA: isa, Threads: 3})
		t.Cleanup(d.Close)
		devices = append(devices, d)
	}
	if HasMetal() {
		devices = append(devices, Metal(t))
	}
	return devices
}

// HasMetal reports whether this machine has a simulated Metal device, so that Metal does not skip.
func HasMetal() bool {
	m, err := sim.Open(sim.Options{})
	if err != nil {
		return false
	}
	m.Close()
	return true
}

// simulated returns a simulated device, which is closed when the test ends.
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

// metalOutputs runs a case on m and returns its outputs, nil after an error. It adds the kernels to
// reached.
func metalOutputs(t *testing.T, m metal.Device, c kernels.Case, reached map[string]bool) []output {
	t.Helper()
	d, err := gpu.New(m)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	op, outs := c.New(d, c.Rand())
	all, err := run(d, op, outs)
	for k, used := range d.Kernels() {
		reached[k] = reached[k] || used
	}
	if err != nil {
		t.Errorf("%s: %v", m.Facts().Name, err)
	}
	return all
}
