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

// worker returns the process that runs the agent's model.
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

// The model's process is killed in the middle of an answer, and then the agent. No process is left
// of either, and none after Quit.
func TestDesktopWorkerIsKilled(t *testing.T) {
	d := newDesktop(t)
	a := d.start("--start")
	a.waitStatus("ready")
	pid := a.worker()
	answer, err := a.request(http.MethodPost, "v1/chat/completions", `{"model":"headroom-demo","stream":true,"max_tokens":30000,
		"messages":[{"role":"user","content":"What is a KV cache?"}],"logit_bias":`+noEnd(t)+`}`)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for n := 0; n < 5 && lines.Scan(); n++ { // it is generating
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
	d.eventually("the model runs again, and the window would say why", func() bool {
		s := a.state().Engine
		return s.Status == host.Ready && s.Notice != nil && s.Notice.Code == problem.Crashed
	})
	a.trayItem().waitRow("headroom-demo crashed and is being loaded again")
	before := a.answered()
	a.post("v1/chat/completions",
		`{"model":"headroom-demo","max_tokens":3,"messages":[{"role":"user","content":"What is a KV cache?"}]}`)
	if a.answered() != before+1 {
		t.Errorf("%d requests have ended, %d before the last one", a.answered(), before)
	}
	again := a.worker()
	if again == pid || alive(pid) {
		t.Errorf("process %d, now %d", pid, again)
	}

	t.Log("a killed agent takes the model's process with it")
	end := a.askAtLength()
	a.signal(syscall.SIGKILL)
	a.waitEnd(-1)
	end()
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
