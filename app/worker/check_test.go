package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

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
	}, func(pid int) { got.pid = pid }, Options{Log: quiet})
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
