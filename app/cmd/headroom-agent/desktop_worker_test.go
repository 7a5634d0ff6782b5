//go:build e2e

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headroom/app/host"
	"headroom/engine/problem"
)

// worker returns the ID of the agent's worker process.
func (p *program) worker() int {
	p.t.Helper()
	found := 0
	p.eventually("the model has a process", func() bool {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			stat, _ := os.ReadFile(path)
			words, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			var pid, parent int
			var state string
			_, rest, _ := strings.Cut(string(stat), ") ") // the name may contain anything
			_, _ = fmt.Sscan(string(stat), &pid)
			_, _ = fmt.Sscan(rest, &state, &parent)
			if parent == p.command.Process.Pid &&
				strings.HasSuffix(string(words), "\x00worker\x00") {
				found = pid
				return true
			}
		}
		return false
	})
	return found
}

// TestDesktopWorkerIsKilled kills the model's process during a request, then the agent. After each
// kill, and after Quit, no process is left.
func TestDesktopWorkerIsKilled(t *testing.T) {
	d := newDesktop(t)
	a := d.start("--start")
	a.waitStatus("ready")
	pid := a.worker()
	answer, err := a.request(http.MethodPost, "v1/chat/completions", endlessRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for n := 0; n < 5 && lines.Scan(); n++ { // wait until it generates tokens
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if !strings.HasPrefix(last, `data: {"error"`) ||
		!strings.Contains(last, string(problem.Crashed)) {
		t.Errorf("the stream ends with %q, want the error", last)
	}
	d.eventually("the model runs again, and the state reports the crash", func() bool {
		s := a.state().Engine
		return s.Status == host.Ready && s.Notice != nil && s.Notice.Code == problem.Crashed
	})
	a.trayItem().waitRow("headroom-demo crashed and is being loaded again")
	before := a.endedRequests()
	a.post("v1/chat/completions",
		`{"model":"headroom-demo","max_tokens":3,"messages":[{"role":"user","content":"What is a KV cache?"}]}`)
	if ended := a.endedRequests(); ended != before+1 {
		t.Errorf("%d requests have ended, want %d", ended, before+1)
	}
	again := a.worker()
	if again == pid || alive(pid) {
		t.Errorf("the killed process %d is alive: %t; the new one is %d", pid, alive(pid), again)
	}

	t.Log("the model's process ends when the agent is killed")
	cancel := a.startRequest()
	a.signal(syscall.SIGKILL)
	a.waitEnd(-1)
	cancel()
	d.eventually("the model's process has ended", func() bool { return !alive(again) })

	t.Log("Quit leaves no process and no lock")
	a = d.start("--start")
	a.waitStatus("ready")
	pid = a.worker()
	a.trayItem().click("Quit Headroom")
	a.waitEnd(0)
	if alive(pid) {
		t.Errorf("process %d is left", pid)
	}
	i, err := claim(filepath.Join(d.home, "config", "headroom"))
	if err != nil {
		t.Fatalf("the agent's lock: %v", err)
	}
	i.release()
}
