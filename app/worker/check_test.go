package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/app/parity"
	"headroom/engine"
	"headroom/engine/problem"
)

// told is what a check of the demo model with short answers has told.
type told struct {
	steps []string
	rows  []parity.Row
	pid   int
}

// checkDemo checks the demo model with the temporary folder in dir. at is called with each step.
func checkDemo(t *testing.T, ctx context.Context, dir string, at func(step int, of *told)) (*told,
	*parity.Report, error) {
	t.Helper()
	return checkDemoWith(t, ctx, dir, Options{Log: quiet}, at)
}

// checkDemoWith is like checkDemo, with options of the worker.
func checkDemoWith(t *testing.T, ctx context.Context, dir string, w Options,
	at func(step int, of *told)) (*told, *parity.Report, error) {
	t.Helper()
	t.Setenv("TMPDIR", dir)
	o, got := small, &told{}
	o.ContextTokens, o.AvailableBytes = parity.ContextTokens, 0
	o.Speculate, o.DraftModel = engine.SpeculateAuto, &engine.DraftModel{Source: bundled()}
	r, err := Check(ctx, parity.Options{Source: bundled(), Engine: o, Tokens: 4, NoOther: "no GPU",
		Say: func(step, steps int, what string) {
			got.steps = append(got.steps, strconv.Itoa(step)+" of "+strconv.Itoa(steps)+": "+what)
			at(step, got)
		},
		Row: func(r parity.Row) { got.rows = append(got.rows, r) },
	}, func(pid int) { got.pid = pid }, w)
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left on disk: %q", left)
	}
	if alive(got.pid) {
		t.Error("the process has not ended")
	}
	return got, r, err
}

// TestCheck: the check of a process tells each step and row as it goes, and leaves nothing.
func TestCheck(t *testing.T) {
	defer checkLeaks(t)()
	seen := 0
	got, r, err := checkDemo(t, t.Context(), t.TempDir(), func(step int, of *told) {
		if step == 3 {
			seen = len(of.rows)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Equal || len(r.Ways) != 12 || len(got.rows) != 12 || seen != 4 {
		t.Errorf("%+v, rows told: %d, before the third step: %d", r, len(got.rows), seen)
	}
	if len(got.steps) != 5 || got.steps[2] != "3 of 5: decoded ahead" {
		t.Errorf("steps: %q", got.steps)
	}
	for i, row := range got.rows {
		if row.Way == "ahead, by the draft model" && row.NotTried != "" {
			t.Errorf("the draft model was not sent: %+v", row)
		}
		if row.Way != r.Ways[i].Way || row.NotTried == "" && row.Answers != len(parity.Prompts) {
			t.Errorf("row %d: %+v", i, row)
		}
	}
}

// TestCheckEnds: a check that is stopped, or whose process is killed, ends with a Problem. Neither
// leaves a file or a process.
func TestCheckEnds(t *testing.T) {
	defer checkLeaks(t)()
	ctx, stop := context.WithCancel(t.Context())
	_, r, err := checkDemo(t, ctx, t.TempDir(), func(step int, _ *told) {
		if step == 2 {
			stop()
		}
	})
	if r != nil || problem.From(err).Code != problem.Cancelled ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %+v, %v", r, err)
	}
	_, r, err = checkDemo(t, t.Context(), t.TempDir(), func(step int, of *told) {
		if step == 2 {
			_ = syscall.Kill(of.pid, syscall.SIGKILL)
		}
	})
	if r != nil || problem.From(err).Code != problem.Crashed {
		t.Errorf("killed: %+v, %v", r, err)
	}
}

// TestCheckOrphan: the worker removes its folder when its parent has gone.
func TestCheckOrphan(t *testing.T) {
	dir := t.TempDir()
	p, err := start(Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	opening := newOpening(engine.Source{}, small, quiet)
	p.outbox.send(&toWorker{Hello: newHello()})
	p.outbox.send(&toWorker{Check: &checkRequest{Options: opening.Options, Tokens: 4,
		Store: store}})
	p.listen(func(message *fromWorker) error {
		if message.Step != nil {
			p.outbox.close() // as if this process had ended
		}
		return nil
	})
	if _, err := os.Stat(store); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// TestCheckHeartbeat: the worker answers for the progress of its check.
func TestCheckHeartbeat(t *testing.T) {
	p, err := start(Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	o := small
	o.ContextTokens = parity.ContextTokens
	p.outbox.send(&toWorker{Hello: newHello()})
	p.outbox.send(&toWorker{Check: &checkRequest{Options: newOpening(bundled(), o, quiet).Options,
		Tokens: 4, Store: t.TempDir()}})
	var got []engine.Heartbeat
	p.listen(func(message *fromWorker) error {
		switch {
		case message.Heartbeat != nil:
			if got = append(got, *message.Heartbeat); len(got) == 2 {
				p.outbox.close()
			}
		case message.Step != nil && message.Step.Number <= 2:
			p.outbox.send(&toWorker{Heartbeat: &heartbeatRequest{}})
		case message.Checked != nil:
			p.outbox.close()
		}
		return nil
	})
	if len(got) != 2 || !got[0].Busy || !got[1].Busy || got[1].Count < 1<<32 ||
		got[1].Count <= got[0].Count {
		t.Errorf("got %+v, expected progress from the first step to the second", got)
	}
}

// TestCheckHangs: a check whose process hangs is ended, and says so.
func TestCheckHangs(t *testing.T) {
	defer checkLeaks(t)()
	ticks, done := make(chan time.Time), make(chan struct{})
	_, r, err := checkDemoWith(t, t.Context(), t.TempDir(), Options{Log: quiet, ticks: ticks},
		func(step int, of *told) {
			if step != 2 {
				return
			}
			if err := syscall.Kill(of.pid, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			go func() {
				for {
					select {
					case ticks <- time.Time{}:
					case <-done:
						return
					}
				}
			}()
		})
	close(done)
	if p := problem.From(err); r != nil || p.Code != problem.Crashed ||
		!strings.Contains(p.Why, "was ended") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCheckPulse: opening an engine and its passes are progress. Without any, a check hangs.
func TestCheckPulse(t *testing.T) {
	var pulse checkPulse
	var w watchdog
	hangs := func(checks int) (why string) {
		for range checks {
			h := pulse.heartbeat()
			why = w.check(true, &h, func() bool { return false })
		}
		return why
	}
	patient := int(stuckUnknown / watchInterval)
	pulse.advance(nil)
	for range 3 { // slow steps of loading
		if why := hangs(patient - 1); why != "" {
			t.Fatalf("while it opens an engine: %s", why)
		}
		pulse.advance(nil)
	}
	e, err := engine.Open(t.Context(), bundled(), small)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	pulse.advance(e)
	if why := hangs(patient - 1); why != "" {
		t.Fatalf("with an engine: %s", why)
	}
	s, err := e.Submit(engine.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 3, IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	for ; err == nil; _, err = s.Next(t.Context()) { // passes
	}
	if why := hangs(1); why != "" {
		t.Fatalf("after passes: %s", why)
	}
	if why := hangs(patient + 1); !strings.Contains(why, "made no progress") {
		t.Errorf("without progress: %q", why)
	}
}
