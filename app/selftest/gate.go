package selftest

// Gate decides whether the GPU computes. The outcome of the short form is kept in a small file,
// with what it was found on: the same device under the same system and the same Headroom is not
// tried again. The file says "begun" before it begins, so that a test that takes the whole program
// down has failed too.

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

// Gate is used by any goroutine. Open and Version are required.
type Gate struct {
	Open    func() (metal.Device, error) // what may compute
	Version string                       // Headroom's
	// where the outcome is kept; "": nowhere, so that every program tries anew
	Dir string

	mu      sync.Mutex
	decided bool
	device  string
	trouble error
}

// Outcomes of a test.
const (
	begun  = "begun"
	passed = "passed"
	failed = "failed"
)

// outcome is what is remembered: of which test, and how it ended.
type outcome struct {
	Device, System, Version string
	Outcome                 string
	Why                     string `json:",omitempty"` // it failed
	PID                     int    `json:",omitempty"` // of the process in which it has begun
}

const (
	outcomeFile = "selftest.json"
	outcomeMost = 1 << 16 // bytes that are read of it
)

// Device says what computes: engine.DeviceMetal where there is a GPU that passes, and
// engine.DeviceCPU. trouble is a Problem to show, that the GPU is there and cannot be trusted; nil
// otherwise. It takes seconds the first time, and no time later on. The error is ctx's.
func (g *Gate) Device(ctx context.Context) (device string, trouble error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.decided {
		return g.device, g.trouble, nil
	}
	device, trouble = engine.DeviceCPU, nil
	now, err := g.here()
	if err != nil { // no GPU: nothing is wrong
		slog.Debug("no GPU", "why", err)
	} else {
		if now, err = g.test(ctx, now); err != nil {
			return "", nil, err
		}
		if now.Outcome == passed {
			device = engine.DeviceMetal
		} else {
			trouble = problem.New(problem.Internal,
				"This Mac's GPU is not used, so answers are slower", now.Why,
				"Run `headroom selftest --out report.txt` and report it with that file. The GPU "+
					"is tried again after an update of the system or of Headroom.")
		}
	}
	g.decided, g.device, g.trouble = true, device, trouble
	return device, trouble, nil
}

// here is what a test made now would be of; the error is that there is no device.
func (g *Gate) here() (outcome, error) {
	m, err := g.Open()
	if err != nil {
		return outcome{}, err
	}
	defer m.Close()
	f := m.Facts()
	return outcome{Device: f.Name, System: f.System, Version: g.Version}, nil
}

// test completes now from what is remembered, or by a test.
func (g *Gate) test(ctx context.Context, now outcome) (outcome, error) {
	before, ok := g.remembered()
	switch {
	case !ok || before.Device != now.Device || before.System != now.System ||
		before.Version != now.Version:
	case before.Outcome != begun:
		return before, nil
	case !alive(before.PID):
		before.Outcome, before.Why = failed, "the program ended in the middle of the last self-test"
		return before, nil
	}
	slog.Info("trying the GPU, as it, its system or Headroom is new", "device", now.Device,
		"system", now.System)
	now.Outcome, now.PID = begun, os.Getpid()
	g.remember(now)
	r, err := Run(ctx, Options{Open: g.Open, Short: true, Version: g.Version})
	if ctx.Err() != nil {
		g.forget()
		return now, ctx.Err()
	}
	if err != nil {
		r = &Report{Checks: []Check{{groupProbes, "opening", err, ""}}}
	}
	now = now.of(r)
	g.remember(now)
	slog.Info("the GPU was tried", "outcome", now.Outcome, "took", r.Took, "why", now.Why)
	return now, nil
}

// alive tells whether there is a process of that ID: another Headroom that is at its test.
func alive(pid int) bool { return pid > 0 && pid != os.Getpid() && unix.Kill(pid, 0) == nil }

// of is o with the outcome of r.
func (o outcome) of(r *Report) outcome {
	o.Outcome, o.Why, o.PID = passed, "", 0
	if !r.Passed() {
		o.Outcome, o.Why = failed, fmt.Sprintf("its self-test failed: %s", r.FirstFailure())
	}
	return o
}

// Note remembers a report that somebody asked for, so that a GPU that passes is used from then on,
// and one that fails is not.
func (g *Gate) Note(r *Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.decided = false
	g.remember(outcome{Device: r.Facts.Name, System: r.Facts.System, Version: g.Version}.of(r))
}

func (g *Gate) path() string { return filepath.Join(g.Dir, outcomeFile) }

// remembered reads the last outcome. A file that cannot be read or understood is none.
func (g *Gate) remembered() (o outcome, ok bool) {
	if g.Dir == "" {
		return o, false
	}
	info, err := os.Stat(g.path())
	if err != nil || !info.Mode().IsRegular() || info.Size() > outcomeMost {
		return o, false
	}
	data, err := os.ReadFile(g.path())
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	return o, err == nil
}

// remember writes the outcome. Failing to costs a test at the next start, so it is only logged.
func (g *Gate) remember(o outcome) {
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
		slog.Warn("the outcome of the GPU's self-test is not kept", "err", err)
	}
}

// forget undoes remember, after a test that was cancelled.
func (g *Gate) forget() {
	if err := os.Remove(g.path()); g.Dir != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("the GPU's self-test", "err", err)
	}
}
