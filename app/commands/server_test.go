package commands

// Tests that look at a server from outside run it in a process of its own: they signal it, measure
// its memory and CPU time, and send it what would take this process down as well.

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/app/control"
)

// serverProcess is a running `headroom serve`. Its worker is a process as well, a child of it.
type serverProcess struct {
	t       *testing.T
	command *exec.Cmd
	address string        // host:port
	token   string        // of the control API
	log     *lastBytes    // standard error
	ended   chan struct{} // closed when the process has ended
}

// startServer starts `headroom serve` on a free port with one CPU thread and these arguments. It
// returns when the server listens; the end of the test stops it. The caller has called isolate.
func startServer(t *testing.T, arguments ...string) *serverProcess {
	t.Helper()
	arguments = append([]string{"serve", "--port", "0", "--device", "cpu", "--threads", "1"},
		arguments...)
	command := exec.Command(os.Args[0], arguments...)
	command.Env = append(os.Environ(), asCommand+"=1")
	return awaitServer(t, command)
}

// awaitServer is startServer for any command that becomes a server.
func awaitServer(t *testing.T, command *exec.Cmd) *serverProcess {
	t.Helper()
	s := &serverProcess{t: t, command: command, log: &lastBytes{}, ended: make(chan struct{})}
	command.Stderr = s.log
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	listens := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, page, ok := strings.Cut(lines.Text(), "web UI: http://"); ok {
				listens <- strings.TrimSuffix(page, "/")
				break
			}
		}
		close(listens)
		_, _ = io.Copy(io.Discard, out)
		_ = command.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("%s", s.log.Bytes())
		}
	})
	select {
	case s.address = <-listens:
	case <-time.After(2 * patience):
	}
	if s.address == "" {
		t.Fatalf("%v: the server does not listen", command.Args)
	}
	dir, err := control.SettingsDir()
	if err == nil {
		s.token, err = control.LoadToken(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stop ends the server as Control-C does, and waits for it.
func (s *serverProcess) stop() {
	_ = s.command.Process.Signal(syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Error("the server does not end")
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

// pid returns the server's process ID.
func (s *serverProcess) pid() int { return s.command.Process.Pid }

// request sends a request with the token and returns the answer; 0 and the error if there is none.
func (s *serverProcess) request(ctx context.Context, method, path string, body []byte) (status int,
	text []byte) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path,
		bytes.NewReader(body))
	if err != nil {
		return 0, []byte(err.Error())
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(control.TokenHeader, s.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		return 0, []byte(err.Error())
	}
	return answer.StatusCode, text
}

// ask sends a request with the token and returns the answer, and how long it took.
func (s *serverProcess) ask(method, path, body string) (status int, text string,
	took time.Duration) {
	begun := time.Now()
	status, answer := s.request(s.t.Context(), method, path, []byte(body))
	return status, string(answer), time.Since(begun)
}

// within waits until the condition holds.
func (s *serverProcess) within(what string, condition func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("timeout: waited until " + what)
		}
	}
}

// lastBytes keeps the end of what is written to it. Its methods may be called concurrently.
type lastBytes struct {
	mu   sync.Mutex
	text []byte
}

func (b *lastBytes) Write(p []byte) (int, error) {
	const most = 64 << 10
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	b.text = b.text[max(len(b.text)-most, 0):]
	return len(p), nil
}

func (b *lastBytes) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.text)
}
