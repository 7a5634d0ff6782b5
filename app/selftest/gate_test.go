package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/kernels/golden"
	"headroom/metal"
)

// fewFamilies reduces the self-test to one kernel family, without questions to the demo model.
func fewFamilies(t *testing.T) {
	norm := []golden.Family{familyOf(t, "norm")}
	families, wantAnswers = func() []golden.Family { return norm }, func() []answer { return nil }
	t.Cleanup(func() { families, wantAnswers = golden.Families, answers })
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

// opener opens devices with an optional fault and a system version, and counts them.
type opener struct {
	open   func() (metal.Device, error)
	fault  string
	system string
	opened int
}

func (o *opener) Open() (metal.Device, error) {
	o.opened++
	m, err := o.open()
	return withSystem{faulty{m, o.fault}, o.system}, err
}

// withSystem is a device with another system version.
type withSystem struct {
	faulty
	system string
}

func (d withSystem) Facts() metal.Facts {
	f := d.faulty.Facts()
	f.System = d.system
	return f
}

// TestGate makes a gate for each of several starts of Headroom. The GPU is tested once, and again
// after an update of the system or of Headroom. A GPU that fails is not used.
func TestGate(t *testing.T) {
	open := simulated(t)
	fewFamilies(t)
	dir := filepath.Join(t.TempDir(), "settings")
	o := &opener{open: open, system: "macOS 15.1"}
	for _, x := range []struct {
		what, system, version, fault string
		device                       string
		tested                       bool
		why                          string // part of the warning's Why; "": no warning
	}{
		{"first start", "macOS 15.1", "v1", "", engine.DeviceMetal, true, ""},
		{"second start", "macOS 15.1", "v1", "rows", engine.DeviceMetal, false, ""},
		{"broken by a system update", "macOS 15.2", "v1", "rows", engine.DeviceCPU, true,
			"norm: rms_norm"},
		{"the same system again", "macOS 15.2", "v1", "", engine.DeviceCPU, false,
			"norm: rms_norm"},
		{"fixed by an update of Headroom", "macOS 15.2", "v2", "", engine.DeviceMetal, true, ""},
	} {
		o.system, o.fault, o.opened = x.system, x.fault, 0
		g := &Gate{Open: o.Open, Version: x.version, Dir: dir}
		for range 2 { // the second call does not open the device
			device, warning, err := g.Device(t.Context())
			if err != nil || device != x.device || (warning != nil) != (x.why != "") {
				t.Fatalf("%s: %s, %v, %v; expected %s", x.what, device, warning, err, x.device)
			}
			if warning != nil && (!strings.Contains(problem.From(warning).Why, x.why) ||
				!strings.Contains(problem.From(warning).Fix, "headroom selftest")) {
				t.Errorf("%s: %+v, expected the reason (%s) and a fix", x.what, warning, x.why)
			}
		}
		if tested := o.opened > 1; tested != x.tested {
			t.Errorf("%s: opened %d times, expected a test: %t", x.what, o.opened, x.tested)
		}
	}
}

// TestGateAfterCrash: a test that crashed the program counts as failed, a damaged file counts as no
// outcome, and a cancelled test runs again.
func TestGateAfterCrash(t *testing.T) {
	open := simulated(t)
	fewFamilies(t)
	o := &opener{open: open, system: "macOS 15.1"}
	dir := t.TempDir()
	g := &Gate{Open: o.Open, Version: "v1", Dir: dir}
	now, err := g.current()
	if err != nil {
		t.Fatal(err)
	}
	now.Outcome = begun
	g.store(now)
	if device, warning, err := g.Device(t.Context()); device != engine.DeviceCPU || err != nil ||
		!strings.Contains(problem.From(warning).Why, "during the last self-test") {
		t.Errorf("after a crash: %s, %v, %v", device, warning, err)
	}
	g.Note(&Report{Facts: withSystem{faulty{Device: mustOpen(t, open)}, o.system}.Facts(),
		Checks: []Check{{}}})
	if device, warning, _ := g.Device(t.Context()); device != engine.DeviceMetal || warning != nil {
		t.Errorf("after a full test that passed: %s, %v", device, warning)
	}

	now.PID = os.Getppid() // another process is testing, so there is no failure
	g = &Gate{Open: o.Open, Version: "v1", Dir: dir}
	g.store(now)
	if device, warning, err := g.Device(t.Context()); device != engine.DeviceMetal ||
		warning != nil || err != nil {
		t.Errorf("while another process tests: %s, %v, %v", device, warning, err)
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
	if _, ok := g.load(); ok {
		t.Error("the outcome of a cancelled test was stored")
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

// TestGateWithoutGPU: without a GPU the CPU computes, without a warning or an outcome file.
func TestGateWithoutGPU(t *testing.T) {
	dir := t.TempDir()
	g := &Gate{Open: func() (metal.Device, error) { return nil, errors.New("no GPU in here") },
		Version: "v1", Dir: dir}
	if device, warning, err := g.Device(t.Context()); device != engine.DeviceCPU ||
		warning != nil || err != nil {
		t.Errorf("%s, %v, %v", device, warning, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("stored %v", files)
	}
}

// TestForeignOutcome: a cancelled test removes only the outcome that this process stored. A Gate
// without a folder removes nothing.
func TestForeignOutcome(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	own := fmt.Sprintf(`{"Outcome":"begun","PID":%d}`, os.Getpid())
	for _, c := range []struct {
		dir, text string
		removed   bool
	}{
		{"", own, false},
		{dir, "notes", false},
		{dir, `{"Outcome":"passed"}`, false},
		{dir, `{"Outcome":"begun","PID":1}`, false},
		{dir, own, true},
	} {
		if err := os.WriteFile(outcomeFile, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		(&Gate{Dir: c.dir}).remove()
		if _, err := os.Lstat(outcomeFile); (err != nil) != c.removed {
			t.Errorf("%q in %q: %v", c.text, c.dir, err)
		}
	}
}
