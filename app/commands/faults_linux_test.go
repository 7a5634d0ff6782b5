package commands

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/app/host"
	"headroom/engine/problem"
)

// worker returns the process ID of the worker; 0: there is none.
func (s *serverProcess) worker() (pid int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var child, parent int
		var state string
		_, rest, _ := strings.Cut(string(data), ") ")
		_, _ = fmt.Sscan(string(data), &child)
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && state != "Z" &&
			parent == s.pid() {
			return child
		}
	}
	return 0
}

func (s *serverProcess) signal(pid int, signal syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Fatal(err)
	}
}

// stream begins a long generation, waits for its first tokens, and returns its lines.
func (s *serverProcess) stream() *bufio.Scanner {
	s.t.Helper()
	// 2084 and 2086 are the model's end tokens.
	body := `{"prompt":"Once upon a time","max_tokens":30000,"stream":true,"temperature":0,` +
		`"logit_bias":{"2084":-100,"2086":-100}}`
	answer, err := http.Post("http://"+s.address+"/v1/completions", "application/json",
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	for n := 0; n < 3 && lines.Scan(); n++ {
	}
	return lines
}

// TestServeEndsSoon: SIGTERM and SIGINT end the server within about three seconds, whether its
// worker is idle, busy or stopped. A running request gets an error. No process is left.
func TestServeEndsSoon(t *testing.T) {
	// A server gives up on a worker that does not end after service.closeTime.
	const most = 3 * time.Second
	for name, c := range map[string]struct {
		signal              syscall.Signal
		generation, stopped bool
	}{
		"idle":                         {syscall.SIGTERM, false, false},
		"a long generation":            {syscall.SIGINT, true, false},
		"a stopped worker":             {syscall.SIGTERM, false, true},
		"a generation that is stopped": {syscall.SIGINT, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t)
			t.Setenv("GORACE", "atexit_sleep_ms=0") // else server and worker each sleep a second
			s := startServer(t, "--context", "32768")
			var lines *bufio.Scanner
			if c.generation {
				lines = s.stream()
			}
			pid := s.worker()
			if c.stopped {
				s.signal(pid, syscall.SIGSTOP)
			}
			begun := time.Now()
			s.signal(s.pid(), c.signal)
			last := ""
			for c.generation && lines.Scan() {
				if lines.Text() != "" {
					last = lines.Text()
				}
			}
			if c.generation && !strings.HasPrefix(last, `data: {"error"`) {
				t.Errorf("the stream ends with %q, want an error", last)
			}
			<-s.ended
			if took := time.Since(begun); took > most {
				t.Errorf("it took %v", took)
			}
			s.within("the worker has ended",
				func() bool { return syscall.Kill(pid, 0) != nil })
		})
	}
}

// TestStoppedWorker: while the worker is stopped, every route that asks for something answers
// within a second, and /health says so. A waiting request is answered by the next worker.
func TestStoppedWorker(t *testing.T) {
	isolate(t)
	s := startServer(t, "--context", "32768")
	_, document, _ := s.ask("GET", "/control/openapi.json", "")
	var api struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(document), &api); err != nil || len(api.Paths) == 0 {
		t.Fatalf("%.200s, %v", document, err)
	}
	first := s.worker()
	s.signal(first, syscall.SIGSTOP)
	answered := make(chan string, 1)
	go func() {
		status, text, _ := s.ask("POST", "/v1/completions", `{"prompt":"Hello","max_tokens":2}`)
		answered <- fmt.Sprint(status, " ", text)
	}()
	const most = 2 * time.Second // one, on a machine under load
	check := func(method, path string) {
		t.Helper()
		if status, text, took := s.ask(method, path, ""); status == 0 || took > most {
			t.Errorf("%s %s: %d after %v: %.100s", method, path, status, took, text)
		}
	}
	s.within("/health says that the model does not answer", func() bool {
		_, text, took := s.ask("GET", "/health", "")
		if took > most {
			t.Errorf("health after %v: %s", took, text)
		}
		return strings.Contains(text, string(problem.Unresponsive))
	})
	check("DELETE", "/control/cache")
	check("GET", "/metrics")
	for path, methods := range api.Paths {
		if _, ok := methods["get"]; ok && !strings.Contains(path, "{") &&
			path != "/control/events" && !strings.Contains(path, "/hub/") {
			check("GET", path)
		}
	}
	if got := <-answered; !strings.HasPrefix(got, "200 ") {
		t.Errorf("the waiting request: %s", got)
	}
	s.within("there is another worker", func() bool {
		w := s.worker()
		return w != 0 && w != first
	})
}

// TestNoDescriptors: the model is loaded again by itself after file descriptors were lacking.
func TestNoDescriptors(t *testing.T) {
	isolate(t)
	s := startServer(t, "--context", "32768")
	pid := s.pid()
	var limit unix.Rlimit
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	lowered := limit
	// The end of the worker frees three descriptors; a new one needs more at once.
	lowered.Cur = uint64(len(open))
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &lowered, nil); err != nil {
		t.Fatal(err)
	}
	s.signal(s.worker(), syscall.SIGKILL)
	s.within("the lack was met", func() bool {
		_, text, _ := s.ask("GET", "/health", "")
		var health struct{ Status, Message string }
		_ = json.Unmarshal([]byte(text), &health)
		return health.Status == "degraded" &&
			strings.Contains(health.Message, "too many open files")
	})
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	s.within("the model runs again", func() bool {
		_, text, _ := s.ask("GET", "/control/state", "")
		var state host.State
		_ = json.Unmarshal([]byte(text), &state)
		return state.Engine.Status == host.Ready
	})
	if status, text, _ := s.ask("POST", "/v1/completions",
		`{"prompt":"Hello","max_tokens":2}`); status != 200 {
		t.Errorf("afterwards: %d %s", status, text)
	}
}
