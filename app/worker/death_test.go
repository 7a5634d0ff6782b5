package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: waited until %s", what)
		}
	}
}

// checkLeaks returns a function that checks that no goroutine has leaked since checkLeaks was
// called.
func checkLeaks(t *testing.T) (check func()) {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		eventually(t, "every goroutine has returned",
			func() bool { return runtime.NumGoroutine() <= before })
	}
}

// TestKilled: when the process is killed, each request ends once with the reason, and nothing
// leaks.
func TestKilled(t *testing.T) {
	defer checkLeaks(t)()
	o := small
	o.ContextTokens = 32768 // no request finishes before the process is killed
	m, err := Open(t.Context(), bundled(), o, Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	tokens := prompt(t, m, "Tell me a story.")
	var streams []*engine.Stream
	for range 6 { // more than run at once
		s, err := m.Submit(engine.Request{Prompt: tokens, IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for got := range 3 {
		if _, err := streams[0].Next(t.Context()); err != nil {
			t.Fatal(got, err)
		}
	}
	if err := syscall.Kill(m.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for i, s := range streams {
		events := read(t, s)
		done := events[len(events)-1]
		if p := problem.From(done.Err); done.Finish != engine.FinishError ||
			p.Code != problem.Crashed || !strings.Contains(p.Why, "killed") {
			t.Errorf("request %d ended with %s, %v", i, done.Finish, done.Err)
		}
	}
	within(t, m.Died(), "the process has ended")
	_, err = m.Submit(engine.Request{Prompt: tokens})
	if problem.From(err).Code != problem.Loading {
		t.Errorf("a request after the kill: %v, want a problem that allows a retry", err)
	}
	if got := m.CachedPrefixes(); got != nil || m.ForgetAll() != 0 || m.Cancel("a") ||
		m.Stats().Running != 0 {
		t.Errorf("after the kill: cached prefixes %v, stats %+v", got, m.Stats())
	}
	if err := m.Close(); err != nil || alive(m.PID()) {
		t.Errorf("Close: %v; the process is alive: %t", err, alive(m.PID()))
	}
	_, err = m.Submit(engine.Request{Prompt: tokens})
	if problem.From(err).Code != problem.NotRunning {
		t.Errorf("a request after Close: %v", err)
	}
}

// TestExitReason: each way in which a process ends has its own reason. Shell scripts stand in for
// the worker.
func TestExitReason(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"exit code": {"exit 3", "it ended with exit code 3"},
		"stderr": {"echo first >&2; echo the driver is gone >&2; exit 1",
			"it ended with exit code 1; its last output: the driver is gone"},
		"a panic": {"echo 'panic: index out of range' >&2; echo 'goroutine 1' >&2; exit 2",
			"it ended with exit code 2; its last output: panic: index out of range"},
		"a signal":       {"kill -ABRT $$", "a library or driver that it uses gave up"},
		"a bus error":    {"kill -BUS $$", "it read a part of a file that is no longer there"},
		"a fault":        {"kill -SEGV $$", "it accessed memory that is not its own"},
		"another signal": {"kill -USR1 $$", "it was ended by the signal SIGUSR1"},
		"killed":         {"kill -KILL $$", "it was killed by another program"},
		"a panic after a bus error": {"echo 'SIGBUS: bus error' >&2; echo 'gs     0x0' >&2; exit 2",
			"it read a part of a file that is no longer there"},
		"a fault in C": {"echo 'fatal error: unexpected signal during runtime execution' >&2; " +
			"echo '[signal SIGSEGV: segmentation violation code=0x1]' >&2; exit 2",
			"it accessed memory that is not its own"},
		"no memory": {"echo 'fatal error: runtime: out of memory' >&2; exit 2",
			"it needed more memory than there was"},
		"a malformed message": {"printf 'what is this' >&4; exec sleep 600",
			"it was ended because its message cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			_, err := Open(t.Context(), bundled(), small,
				Options{Command: []string{"sh", "-c", c.script},
					Log: slog.New(slog.NewTextHandler(&log, nil))})
			p := problem.From(err)
			if p.Code != problem.Crashed || !strings.HasPrefix(p.Why, c.want) ||
				!strings.Contains(p.Message, "while it was loading") {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("the log has no error: %q", log.String())
			}
		})
	}
	_, err := Open(t.Context(), bundled(), small,
		Options{Command: []string{"/nowhere/headroom", Argument}, Log: quiet})
	if p := problem.From(err); p.Code != problem.Internal ||
		!strings.Contains(p.Why, "/nowhere/headroom") {
		t.Errorf("a missing program: %v", err)
	}
	// The hello of another version: Headroom was updated while it ran.
	other := framed(&fromWorker{Hello: &hello{Protocol: protocol + 1, Version: "9.9"}})
	_, err = Open(t.Context(), bundled(), small,
		Options{Command: []string{"sh", "-c", "printf '" + octal(other) + "' >&4; exec sleep 600"},
			Log: quiet})
	if p := problem.From(err); p.Code != problem.Crashed ||
		!strings.Contains(p.Why, "version 9.9 with protocol") ||
		!strings.Contains(p.Why, "updated") {
		t.Errorf("another version: %v", err)
	}
}

// TestBusError: Go's runtime prints a stack trace and its registers when a worker gets SIGBUS. The
// reason is a sentence all the same, and no prompt is blamed.
func TestBusError(t *testing.T) {
	suspects := NewSuspects()
	o := small
	o.ContextTokens = 32768
	m, err := Open(t.Context(), bundled(), o, Options{Log: quiet, Suspects: suspects})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "Hello."), IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(m.PID(), syscall.SIGBUS); err != nil {
		t.Fatal(err)
	}
	events := read(t, s)
	why := problem.From(events[len(events)-1].Err).Why
	if !strings.HasPrefix(why, "it read a part of a file") || strings.Contains(why, "0x") {
		t.Errorf("the reason is %q", why)
	}
	if len(suspects.known) > 0 {
		t.Error("the prompt is suspected")
	}
	_ = m.Close()
}

func octal(data []byte) string {
	var b strings.Builder
	for _, c := range data {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// startParent starts a process that has a worker with a running request, and returns the worker's
// process ID.
func startParent(t *testing.T) (pid int, parent *exec.Cmd) {
	t.Helper()
	parent = exec.Command(os.Args[0], parentArgument)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, readErr := out.Read(line)
	pid, err = strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if readErr != nil || err != nil {
		t.Fatal(readErr, string(line[:n]))
	}
	return pid, parent
}

// TestOrphan: a worker ends by itself when its parent is killed, even during a request.
func TestOrphan(t *testing.T) {
	pid, parent := startParent(t)
	if !alive(pid) {
		t.Error("the worker has ended before its parent was killed")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the worker has ended", func() bool { return !alive(pid) })
}

// parentArgument makes the test binary a parent: it starts a request, prints its worker's process
// ID and waits to be killed.
const parentArgument = "parent"

func runParent() {
	m, err := Open(context.Background(), bundled(), small, Options{Log: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := m.Submit(engine.Request{Prompt: []int32{1, 2, 3}, IgnoreEOS: true})
	if err == nil {
		_, err = s.Next(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.PID())
	select {}
}

// TestIgnoresTerminalSignals: a worker ignores the signals that a terminal sends to every program.
// Its parent decides when it ends.
func TestIgnoresTerminalSignals(t *testing.T) {
	m := open(t, small)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if err := syscall.Kill(m.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "What is a KV cache?"), MaxTokens: 3})
	if err != nil {
		t.Fatal(err)
	}
	if events := read(t, s); events[len(events)-1].Err != nil {
		t.Errorf("the request ended with %v", events[len(events)-1].Err)
	}
}

// TestRandomEnds starts workers, cancels some of their requests, and closes or kills the workers at
// random times. Every request ends once, and nothing leaks.
func TestRandomEnds(t *testing.T) {
	defer checkLeaks(t)()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	runs := 6
	if os.Getenv("HEADROOM_LONG") != "" {
		runs = 100
	}
	for run := range runs {
		m, err := Open(t.Context(), bundled(), small, Options{Log: quiet})
		if err != nil {
			t.Fatalf("seed %d, run %d: %v", seed, run, err)
		}
		tokens := prompt(t, m, "Tell me a story.")
		var requests sync.WaitGroup
		ended, refused := make([]int, 12), make([]bool, 12)
		for n := range ended {
			cancelAt, most := random.IntN(40), 1+random.IntN(60)
			requests.Go(func() {
				s, err := m.Submit(engine.Request{Prompt: tokens, MaxTokens: most, IgnoreEOS: true})
				if err != nil {
					code := problem.From(err).Code
					if refused[n] = true; code != problem.Loading && code != problem.NotRunning {
						t.Errorf("seed %d: refused with %v", seed, err)
					}
					return
				}
				for got := 0; ; got++ {
					if got == cancelAt {
						s.Cancel()
					}
					e, err := s.Next(t.Context())
					if errors.Is(err, io.EOF) {
						return
					}
					if err != nil {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
					if e.Type == engine.Done {
						ended[n]++
					}
				}
			})
		}
		ending, after := random.IntN(3), random.IntN(30)
		eventually(t, "requests are under way", func() bool {
			return len(m.Recent())*10+m.Stats().Running >= after/10 ||
				m.Stats().FinishedRequests > 6
		})
		switch ending {
		case 0:
			_ = syscall.Kill(m.PID(), syscall.SIGKILL)
		case 1: // closed while requests run
		case 2:
			requests.Wait()
		}
		if err := m.Close(); err != nil {
			t.Errorf("seed %d, run %d: Close: %v", seed, run, err)
		}
		requests.Wait()
		for n, times := range ended {
			if times != 1 && !refused[n] || times != 0 && refused[n] {
				t.Errorf("seed %d, run %d: request %d ended %d times, refused: %t", seed, run, n,
					times, refused[n])
			}
		}
		if alive(m.PID()) {
			t.Errorf("seed %d, run %d: the process is alive after Close", seed, run)
		}
	}
}

// TestGate: if the GPU's driver crashes the worker that tests it, the GPU is not used, and the
// parent reports the crash.
func TestGate(t *testing.T) {
	g := Gate{Dir: t.TempDir(), Options: Options{Log: quiet}}
	device, warning, err := g.Device(t.Context())
	if device != engine.DeviceCPU && runtime.GOOS == "linux" || warning != nil || err != nil {
		t.Errorf("without a GPU: %s, %v, %v", device, warning, err)
	}
	t.Setenv(envFault, "gpu")
	g = Gate{Dir: t.TempDir(), Options: Options{Log: quiet}}
	device, warning, err = g.Device(t.Context())
	if device != engine.DeviceCPU || warning == nil ||
		!strings.Contains(problem.From(warning).Why, "panic: the driver is broken") || err != nil {
		t.Errorf("a broken driver: %s, %v, %v", device, warning, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := new(Gate).Device(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
