package selftest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/kernels/golden"
	"headroom/metal"
)

// fewFamilies keeps the tests short: one family, and no questions.
func fewFamilies(t *testing.T) {
	norm := []golden.Family{familyOf(t, "norm")}
	families, asked = func() []golden.Family { return norm }, func() []answer { return nil }
	t.Cleanup(func() { families, asked = golden.Families, answers })
}

func familyOf(t *testing.T, name string) golden.Family {
	t.Helper()
	for _, f := range golden.Families() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no family %s", name)
	return golden.Family{}
}

// opener counts the devices it opens, each with a fault or none, under a system of that name.
type opener struct {
	open   func() (metal.Device, error)
	fault  string
	system string
	opened int
}

func (o *opener) Open() (metal.Device, error) {
	o.opened++
	m, err := o.open()
	return named{wrong{m, o.fault}, o.system}, err
}

type named struct {
	wrong
	system string
}

func (d named) Facts() metal.Facts {
	f := d.wrong.Facts()
	f.System = d.system
	return f
}

// The life of a gate over starts: tested once, again after an update of the system or of Headroom,
// and not used when it fails.
func TestGate(t *testing.T) {
	open := simulated(t)
	fewFamilies(t)
	dir := filepath.Join(t.TempDir(), "settings")
	o := &opener{open: open, system: "macOS 15.1"}
	for _, x := range []struct {
		what, system, version, fault string
		device                       string
		tested                       bool
		why                          string // in the trouble; "": none
	}{
		{"the first start", "macOS 15.1", "v1", "", engine.DeviceMetal, true, ""},
		{"the second start", "macOS 15.1", "v1", "rows", engine.DeviceMetal, false, ""},
		{"a system that breaks it", "macOS 15.2", "v1", "rows", engine.DeviceCPU, true,
			"norm: rms_norm"},
		{"the same one again", "macOS 15.2", "v1", "", engine.DeviceCPU, false, "norm: rms_norm"},
		{"a Headroom that mends it", "macOS 15.2", "v2", "", engine.DeviceMetal, true, ""},
	} {
		o.system, o.fault, o.opened = x.system, x.fault, 0
		g := &Gate{Open: o.Open, Version: x.version, Dir: dir}
		for range 2 { // the second time without a look
			device, trouble, err := g.Device(t.Context())
			if err != nil || device != x.device || (trouble != nil) != (x.why != "") {
				t.Fatalf("%s: %s, %v, %v; expected %s", x.what, device, trouble, err, x.device)
			}
			if trouble != nil && (!strings.Contains(problem.From(trouble).Why, x.why) ||
				!strings.Contains(problem.From(trouble).Fix, "headroom selftest")) {
				t.Errorf("%s: %+v, expected why (%s) and what to do", x.what, trouble, x.why)
			}
		}
		if tested := o.opened > 1; tested != x.tested {
			t.Errorf("%s: opened %d times, expected a test: %t", x.what, o.opened, x.tested)
		}
	}
}

// A test that took the program down has failed; a damaged file means that nothing is known; one
// that was cancelled is made again.
func TestGateAfterCrash(t *testing.T) {
	open := simulated(t)
	fewFamilies(t)
	o := &opener{open: open, system: "macOS 15.1"}
	dir := t.TempDir()
	g := &Gate{Open: o.Open, Version: "v1", Dir: dir}
	now, err := g.here()
	if err != nil {
		t.Fatal(err)
	}
	now.Outcome = begun
	g.remember(now)
	if device, trouble, err := g.Device(t.Context()); device != engine.DeviceCPU || err != nil ||
		!strings.Contains(problem.From(trouble).Why, "ended in the middle") {
		t.Errorf("after a crash: %s, %v, %v", device, trouble, err)
	}
	g.Note(&Report{Facts: named{wrong{Device: mustOpen(t, open)}, o.system}.Facts(),
		Checks: []Check{{}}})
	if device, trouble, _ := g.Device(t.Context()); device != engine.DeviceMetal || trouble != nil {
		t.Errorf("after a full test that passed: %s, %v", device, trouble)
	}

	now.PID = os.Getppid() // somebody else is at it: that is no failure
	g = &Gate{Open: o.Open, Version: "v1", Dir: dir}
	g.remember(now)
	if device, trouble, err := g.Device(t.Context()); device != engine.DeviceMetal ||
		trouble != nil || err != nil {
		t.Errorf("while another tests: %s, %v, %v", device, trouble, err)
	}

	g = &Gate{Open: o.Open, Version: "v1", Dir: dir}
	if err := os.WriteFile(g.path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if device, _, err := g.Device(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %s, %v", device, err)
	}
	if _, ok := g.remembered(); ok {
		t.Error("a test that was cancelled is remembered")
	}
}

func mustOpen(t *testing.T, open func() (metal.Device, error)) metal.Device {
	t.Helper()
	m, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// Without a GPU the CPU computes, and nothing is said or kept.
func TestGateWithoutGPU(t *testing.T) {
	dir := t.TempDir()
	g := &Gate{Open: func() (metal.Device, error) { return nil, errors.New("no GPU in here") },
		Version: "v1", Dir: dir}
	if device, trouble, err := g.Device(t.Context()); device != engine.DeviceCPU ||
		trouble != nil || err != nil {
		t.Errorf("%s, %v, %v", device, trouble, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("kept %v", files)
	}
}
