//go:build e2e

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestPackage installs the Linux archive into a home folder, removes the archive, and runs the
// installed programs: `headroom serve`, and the agent, which finds the window next to it.
func TestPackage(t *testing.T) {
	d := newDesktop(t)
	archive := filepath.Join(d.home, "headroom.tar.gz")
	d.output("../../../build/linux/tarball", "../../../bin", archive)
	d.output("tar", "-xzf", archive, "-C", d.home)
	prefix := filepath.Join(d.home, "programs")
	d.output(filepath.Join(d.home, "headroom", "install"), prefix)
	for _, unpacked := range []string{archive, filepath.Join(d.home, "headroom")} {
		if err := os.RemoveAll(unpacked); err != nil {
			t.Fatal(err)
		}
	}

	t.Log("headroom serve answers")
	serve := exec.Command(filepath.Join(prefix, "bin", "headroom"), "serve", "--port", "0",
		"--no-ssd-cache")
	serve.Env = d.environment()
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	serve.Stderr = os.Stderr
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		_ = serve.Wait()
	})
	defer end()
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text())
	}
	if address == "" {
		t.Fatal("serve ended without printing an address")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // so that serve never blocks on its output
	answer, err := http.Get(address + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/v1/models answers %s", answer.Status)
	}

	uninstall := filepath.Join(prefix, "lib", "headroom", "uninstall")
	remove := func() ([]byte, error) {
		command := exec.Command(uninstall)
		command.Env = d.environment()
		return command.CombinedOutput()
	}
	if out, err := remove(); err == nil || !strings.Contains(string(out), "Headroom is running") {
		t.Errorf("uninstall while headroom serve is running: %v, %s", err, out)
	}

	t.Log("the agent opens the window that was installed with it")
	a := d.startProgram(filepath.Join(prefix, "lib", "headroom", "headroom-agent"), "--no-start",
		"--open")
	w := a.waitWindow()
	if program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.pid)); err != nil ||
		program != filepath.Join(prefix, "lib", "headroom", "headroom-window") {
		t.Errorf("the window is %s (%v)", program, err)
	}
	entry, err := os.ReadFile(filepath.Join(prefix, "share", "applications", "headroom.desktop"))
	if err != nil {
		t.Fatal(err)
	}
	_, class, _ := strings.Cut(string(entry), "\nStartupWMClass=")
	class, _, _ = strings.Cut(class, "\n")
	if windows := string(d.output("wmctrl", "-l", "-x")); !regexp.MustCompile(`(?m)^` + w.id +
		`\s+\S+\s+` + regexp.QuoteMeta(class) + `\.`).MatchString(windows) {
		t.Errorf("the desktop entry is for class %q, the windows are:\n%s", class, windows)
	}
	a.signal(syscall.SIGTERM)
	a.waitEnd(0)

	t.Log("uninstall leaves nothing")
	end()
	d.eventually("the window's process has ended", func() bool { return !alive(w.pid) })
	if out, err := remove(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(prefix, "lib")); !os.IsNotExist(err) {
		t.Errorf("the folder lib is left (%v)", err)
	}
}
