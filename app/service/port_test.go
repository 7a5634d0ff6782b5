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
	_, err = listen("127.0.0.1", port)
	p := problem.From(err)
	if p.Code != problem.PortTaken || !strings.Contains(p.Fix, "--port 0") {
		t.Errorf("got %+v", p)
	}
	owner, pid := portOwner(port)
	if owner != "" && (int(pid) != os.Getpid() || !strings.Contains(p.Why, owner)) {
		t.Errorf("the owner is %s (%d), want this process, %d: %s", owner, pid, os.Getpid(), p.Why)
	}
}

func TestListenProblemCode(t *testing.T) {
	for _, err := range []error{syscall.EADDRINUSE, syscall.EACCES, errors.New("no such host")} {
		if p := problem.From(listenProblem(err, "127.0.0.1", 1)); p.Code != problem.PortTaken {
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
