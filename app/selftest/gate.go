package selftest

// The gate stores the outcome of the short form in a small file, with the device, system and
// version that were tested. The same combination is not tested again. Before a test starts, the
// gate stores "begun". If the test crashes the program, the next start finds "begun" and counts the
// test as failed.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"headroom/app/disk"
	"headroom/engine"
	"headroom/engine/problem"
	"headroom/metal"
)

// Gate decides whether the GPU may compute. Its methods may be called from any goroutine. Open and
// Version are required.
type Gate struct {
	Open    func() (metal.Device, error) // opens the GPU
	Version string                       // version of Headroom
	// Dir is the folder of the outcome file. If it is empty, every process tests again.
	Dir string

	mu      sync.Mutex
	decided bool
	device  string
	warning error
}

// Outcomes of a test.
const (
	begun  = "begun"
	passed = "passed"
	failed = "failed"
)

// outcome is the content of the file: what was tested, and how the test ended.
type outcome struct {
	Device, System, Version string
	Outcome                 string
	Why                     string `json:",omitempty"` // why it failed
	PID                     int    `json:",omitempty"` // process that runs the test
}

const (
	outcomeFile     = "selftest.json"
	outcomeMaxBytes = 1 << 16 // largest file that is read
)

// Device returns engine.DeviceMetal if there is a GPU and it passes the test, else
// engine.DeviceCPU. If the GPU failed, warning is a Problem for the user; otherwise it is nil. The
// first call may run the test, which takes seconds. err is the error of ctx.
func (g *Gate) Device(ctx context.Context) (device string, warning error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.decided {
		return g.device, g.warning, nil
	}
	device, warning = engine.DeviceCPU, nil
	now, err := g.current()
	if err != nil { // there is no GPU, which is not a failure
		slog.Debug("no GPU", "why", err)
	} else {
		if now, err = g.test(ctx, now); err != nil {
			return "", nil, err
		}
		if now.Outcome == passed {
			device = engine.DeviceMetal
		} else {
			warning = problem.New(problem.Internal,
				"This Mac's GPU is not used, so answers are slower", now.Why,
				"Run `headroom selftest --out report.txt` and report a bug with that file. "+
					"Headroom tests the GPU again after an update of macOS or Headroom.")
		}
	}
	g.decided, g.device, g.warning = true, device, warning
	return device, warning, nil
}

// current returns the device, system and version, without an outcome. The error means that there is
// no device.
func (g *Gate) current() (outcome, error) {
	m, err := g.Open()
	if err != nil {
		return outcome{}, err
	}
	defer m.Close()
	f := m.Facts()
	return outcome{Device: f.Name, System: f.System, Version: g.Version}, nil
}

// test returns the outcome for the device, system and version in its argument: the stored outcome,
// or else that of a new test.
func (g *Gate) test(ctx context.Context, now outcome) (outcome, error) {
	before, ok := g.load()
	switch {
	case !ok || before.Device != now.Device || before.System != now.System ||
		before.Version != now.Version:
	case before.Outcome != begun:
		return before, nil
	case !testsElsewhere(before.PID):
		before.Outcome, before.Why = failed, "Headroom crashed or quit during the last self-test"
		return before, nil
	}
	slog.Info("testing the GPU, because the device, the system or Headroom has changed",
		"device", now.Device, "system", now.System)
	now.Outcome, now.PID = begun, os.Getpid()
	g.store(now)
	r, err := Run(ctx, Options{Open: g.Open, Short: true, Version: g.Version})
	if ctx.Err() != nil {
		g.remove()
		return now, ctx.Err()
	}
	if err != nil {
		r = &Report{Checks: []Check{{groupProbes, "opening", err, ""}}}
	}
	now = now.withReport(r)
	g.store(now)
	slog.Info("tested the GPU", "outcome", now.Outcome, "took", r.Took, "why", now.Why)
	return now, nil
}

// testsElsewhere reports whether pid is another process that is still running: another Headroom,
// which is testing the GPU.
func testsElsewhere(pid int) bool {
	return pid > 0 && pid != os.Getpid() && unix.Kill(pid, 0) == nil
}

// withReport returns o with the outcome of r.
func (o outcome) withReport(r *Report) outcome {
	o.Outcome, o.Why, o.PID = passed, "", 0
	if !r.Passed() {
		o.Outcome, o.Why = failed, fmt.Sprintf("its self-test failed: %s", r.FirstFailure())
	}
	return o
}

// Note stores the outcome of a report that the user asked for. Later calls of Device use it.
func (g *Gate) Note(r *Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.decided = false
	o := outcome{Device: r.Facts.Name, System: r.Facts.System, Version: g.Version}
	g.store(o.withReport(r))
}

func (g *Gate) path() string { return filepath.Join(g.Dir, outcomeFile) }

// load reads the stored outcome. ok is false if there is no valid file.
func (g *Gate) load() (o outcome, ok bool) {
	if g.Dir == "" {
		return o, false
	}
	data, _, err := disk.Read(g.path(), outcomeMaxBytes)
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	return o, err == nil
}

// store writes the outcome. An error is only logged: then the next start tests again.
func (g *Gate) store(o outcome) {
	if g.Dir == "" {
		return
	}
	data, err := json.MarshalIndent(o, "", "  ")
	if err == nil {
		err = os.MkdirAll(g.Dir, 0o700)
	}
	if err == nil {
		err = disk.WriteFile(g.path(), append(data, '\n'), 0o600)
	}
	if err != nil {
		slog.Warn("cannot store the outcome of the GPU's self-test", "err", err)
	}
}

// remove removes the outcome file after a cancelled test, if this process stored it.
func (g *Gate) remove() {
	if o, ok := g.load(); !ok || o.Outcome != begun || o.PID != os.Getpid() {
		return
	}
	if err := os.Remove(g.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("cannot remove the outcome of a cancelled self-test", "err", err)
	}
}
