package kerneltest

// Cases on the simulated Metal device in checking mode. It runs the same .metal text as a Mac.

import (
	"errors"
	"maps"
	"os"
	"slices"
	"testing"

	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/sim"
)

// RunMetal compares every case whose operator has a Metal kernel with the reference. It runs them
// in checking mode, and again with another order of threads and dispatches and with short Metal
// buffers, which must give the same bits. A kernel that no case dispatches is an error. Without
// clang the test is skipped. With the build tag nv the cases also run on an NVIDIA GPU.
//
// The simulated device is slow: every fourth case of each operator runs, and all of them with
// HEADROOM_LONG. RunMetal returns the number of cases that the short buffers have split into more
// dispatches, -1 if some cases did not run there.
func RunMetal(t *testing.T, cases []kernels.Case) (split int) {
	t.Helper()
	if runNV(t, cases) {
		return -1
	}
	// reached has the kernels of all compiled sources, true if a case has dispatched them.
	reached := map[string]bool{}
	all, part := true, newPart()
	whole := &counter{Device: simulated(t, sim.Options{Check: true, Seed: 1})}
	short := splitter{t: t, devices: map[uint64]*counter{}}
	reference := kernels.NewReference()
	defer reference.Close()
	for _, c := range cases {
		op, outs := c.New(reference, c.Rand())
		if _, ok := op.(gpu.Op); !ok {
			continue
		}
		ran := false
		if !part.has(op.Name()) {
			all = false
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			ran = true
			var want []output
			if !RaceDetector { // as in Run
				var err error
				if want, err = run(reference, op, outs); err != nil {
					t.Fatal(err)
				}
			}
			whole.dispatches = 0
			got, err := metalOutputs(t, whole, c, reached)
			if err != nil {
				t.Fatalf("%s: %v", whole.Facts().Name, err)
			}
			compare(t, whole.Facts().Name, c, got, want)
			parts := short.run(t, c, reached, whole.dispatches)
			if parts != nil && !slices.EqualFunc(got, parts, equal) {
				t.Errorf("%s: another order of threads and dispatches, or short buffers, give "+
					"other bits", whole.Facts().Name)
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
	if !all {
		return -1
	}
	return short.split
}

// part selects the cases that run.
type part struct {
	all  bool
	seen map[string]int // cases of each operator
}

func newPart() *part {
	return &part{os.Getenv("HEADROOM_LONG") != "", map[string]int{}}
}

// has reports whether the next case of an operator runs.
func (p *part) has(operator string) bool {
	n := p.seen[operator]
	p.seen[operator]++
	return p.all || n%4 == 0
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

// metalOutputs runs a case on m and returns its outputs. It adds the kernels to reached.
func metalOutputs(t *testing.T, m metal.Device, c kernels.Case, reached map[string]bool) ([]output,
	error) {
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
	return all, err
}
