package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// stop stops a worker's process and waits until the system has done so.
func stop(t *testing.T, m *Model) {
	t.Helper()
	if err := syscall.Kill(m.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process has stopped", func() bool { return isStopped(m.PID()) })
}

// TestStoppedAnswers: while the process is stopped, no method of the model but Submit and Forget
// waits for it, and Health says that it is silent. Afterwards it goes on.
func TestStoppedAnswers(t *testing.T) {
	defer checkLeaks(t)()
	m, err := Open(t.Context(), bundled(), small,
		Options{Log: quiet, ticks: make(chan time.Time)}) // no watchdog
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "Hello."), MaxTokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	read(t, s)
	known := m.CachedPrefixes()
	if err := m.Health(timeout); err != nil || len(known) == 0 {
		t.Fatalf("running: %v, prefixes %v", err, known)
	}
	stop(t, m)
	begun := time.Now()
	list, current := m.CachedPrefixesWithin(time.Millisecond)
	if current || len(list) != len(known) {
		t.Errorf("prefixes %v, current: %t; want those of before", list, current)
	}
	if err := m.Health(time.Millisecond); problem.From(err).Code != problem.Unresponsive {
		t.Errorf("Health: %v", err)
	}
	m.Stats()
	m.Recent()
	m.Cancel("a")
	m.SetDutyCycle(1)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the methods took %v", took)
	}
	eventually(t, "the silence is noticed without waiting",
		func() bool { return m.Health(0) != nil })
	if err := syscall.Kill(m.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := m.Health(timeout); err != nil {
		t.Errorf("after it has continued: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Health(time.Millisecond); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// TestCloseOfStopped: a stopped process continues when it is closed, and ends in order.
func TestCloseOfStopped(t *testing.T) {
	m, err := Open(t.Context(), bundled(), small, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, m)
	begun := time.Now()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took >= closeTime {
		t.Errorf("Close took %v: the process was killed", took)
	}
	if end := m.process.ending(); end.reason != "it ended with exit code 0" {
		t.Errorf("the process: %s", end.reason)
	}
}

// TestEndWithin: a process that does not end by itself is killed in time.
func TestEndWithin(t *testing.T) {
	w := Options{Command: []string{"sh", "-c", "exec sleep 600"}, Log: quiet}
	p, err := start(w)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(p, small)
	close(m.opened) // as if the model were loaded
	go m.listen()
	m.EndWithin(10 * time.Millisecond)
	begun := time.Now()
	_ = m.Close()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestStoppedOrphan: a worker that was stopped ends, too, when its parent is killed. The system
// continues the stopped processes of a process group that has lost its parent.
func TestStoppedOrphan(t *testing.T) {
	pid, parent := startParent(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all threads of the process have stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !strings.Contains(string(stat), ") T ")
		})
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the worker has ended", func() bool { return !alive(pid) })
}

// TestLack: errors of passing lacks may be retried and do not ask to quit; others do.
func TestLack(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.EAGAIN,
		&os.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}} {
		p := problem.From(startProblem(err))
		if p.Code != problem.LowResources || p.RetryAfter == 0 || p.Fix != "" {
			t.Errorf("%v: %+v", err, p)
		}
		loading := problem.Wrap(problem.ModelBroken, err, "It cannot be read", "")
		if w := newWireProblem(loading); w.RetryAfter == 0 {
			t.Errorf("%v while loading: %+v", err, w)
		}
	}
	if p := problem.From(startProblem(errors.New("no such program"))); p.RetryAfter != 0 ||
		p.Code != problem.Internal {
		t.Errorf("another error: %+v", p)
	}
}
