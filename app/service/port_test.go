package service

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"headroom/engine/problem"
)

func TestListenOnTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, err = listen("127.0.0.1", port, ownPort)
	p := problem.From(err)
	if p.Code != problem.PortTaken || !strings.Contains(p.Fix, "--port 0") {
		t.Errorf("got %+v", p)
	}
	owner, pid := portOwner(port)
	if owner != "" && (int(pid) != os.Getpid() || !strings.Contains(p.Why, owner)) {
		t.Errorf("the owner is %s (%d), want this process, %d: %s", owner, pid, os.Getpid(), p.Why)
	}
}

// TestOllamaPortAdvice: --port does not change Ollama's port, so no advice names it.
func TestOllamaPortAdvice(t *testing.T) {
	taken := freeListener(t)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, err := listen("127.0.0.1", port, ollamaPort)
	for _, err := range []error{err, listenProblem(syscall.EACCES, "127.0.0.1", 1, ollamaPort),
		listenProblem(errors.New("no such host"), "127.0.0.1", 1, ollamaPort)} {
		if p := problem.From(err); p.Code != problem.PortTaken ||
			!strings.Contains(p.Fix, "--ollama-port=false") || strings.Contains(p.Fix, "--port") {
			t.Errorf("the advice is %q", p.Fix)
		}
	}
}

func TestListenProblemCode(t *testing.T) {
	for _, err := range []error{syscall.EADDRINUSE, syscall.EACCES, errors.New("no such host")} {
		p := problem.From(listenProblem(err, "127.0.0.1", 1, ownPort))
		if p.Code != problem.PortTaken {
			t.Errorf("%v: code %s", err, p.Code)
		}
	}
}

func TestReachable(t *testing.T) {
	for listening, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1",
		"[::1]:1": "[::1]:1", "192.168.1.2:1": "192.168.1.2:1",
	} {
		if got := reachable(listening); got != want {
			t.Errorf("reachable(%q) = %q, want %q", listening, got, want)
		}
	}
}
