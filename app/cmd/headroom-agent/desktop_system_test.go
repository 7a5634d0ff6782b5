//go:build e2e

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"

	"headroom/app/tray"
)

const watcherName = "org.kde.StatusNotifierWatcher"

// owner returns the process that owns a name on the session bus, 0 if none does.
func owner(t *testing.T, conn *dbus.Conn, name string) int {
	t.Helper()
	var pid uint32
	if conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0,
		name).Store(&pid) != nil {
		return 0
	}
	return int(pid)
}

// TestDesktopPanelReturns: when the panel and the StatusNotifierWatcher are killed, the agent keeps
// running. When they return, its icon shows the current state, and clicks work.
func TestDesktopPanelReturns(t *testing.T) {
	d := newDesktop(t)
	a := d.start("--no-start")
	item := a.trayItem()
	item.showsIcon(tray.IconStopped)

	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	panel, host := owner(t, conn, "org.xfce.Panel"), owner(t, conn, watcherName)
	if panel == 0 || host == 0 {
		t.Fatalf("the panel is process %d, the StatusNotifierWatcher is process %d", panel, host)
	}
	for _, pid := range []int{panel, host} { // they may be the same process
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && pid == panel {
			t.Fatal(err)
		}
	}
	d.eventually("the StatusNotifierWatcher has ended",
		func() bool { return owner(t, conn, watcherName) == 0 })

	t.Log("without the icon, the control API starts the engine")
	a.post("control/engine/start", `{}`)
	a.waitStatus("ready")

	d.panel()
	d.eventually("there is a StatusNotifierWatcher again",
		func() bool { return owner(t, conn, watcherName) != 0 })
	item = a.trayItem()
	item.showsIcon(tray.IconReady)
	item.waitRow("Ready, headroom-demo")
	item.click("Stop Engine")
	a.waitStatus("stopped")
	item.showsIcon(tray.IconStopped)
	item.click("Quit Headroom")
	a.waitEnd(0)
}

// panel starts a new panel. It runs until the display closes, because later tests need it.
func (d *desktop) panel() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(os.Getenv("HEADROOM_DESKTOP"), "panel.log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command("xfce4-panel", "--disable-wm-check")
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { _ = command.Wait() }()
}

// logind is a fake of systemd-logind, which keeps the computer awake while a program holds a lock.
// A lock is the end of a pipe; a process holds it while it has that end open.
type logind struct {
	d *desktop

	mu    sync.Mutex
	asked []string        // the arguments what, who and mode of each lock
	pipes map[string]bool // the locks, by their names in /proc
}

// logind makes the session bus the system bus of programs that start from now on.
func (d *desktop) logind() *logind {
	d.t.Helper()
	l := &logind{d: d, pipes: map[string]bool{}}
	if err := d.ownName("org.freedesktop.login1").Export(l, "/org/freedesktop/login1",
		"org.freedesktop.login1.Manager"); err != nil {
		d.t.Fatal(err)
	}
	d.t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", os.Getenv("DBUS_SESSION_BUS_ADDRESS"))
	return l
}

// Inhibit is called over D-Bus.
func (l *logind) Inhibit(what, who, _, mode string) (dbus.UnixFD, *dbus.Error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, fmt.Sprint(what, " ", who, " ", mode))
	name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	l.pipes[name] = true // this process keeps it open, too; /proc shows which others have it
	l.d.t.Cleanup(func() { r.Close(); w.Close() })
	return dbus.UnixFD(w.Fd()), nil
}

// locks returns the locks that were requested so far.
func (l *logind) locks() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// heldBy counts the locks that a process holds.
func (l *logind) heldBy(pid int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && l.pipes[target] {
			n++
		}
	}
	return n
}

// TestDesktopNoSleep: the agent keeps the computer awake only while a request runs. A window or a
// worker that starts meanwhile does not inherit the lock.
func TestDesktopNoSleep(t *testing.T) {
	d := newDesktop(t)
	l := d.logind()
	a := d.start("--start")
	a.waitStatus("ready")
	pid := a.command.Process.Pid
	if got := l.locks(); len(got) != 0 {
		t.Errorf("before the first request, the agent requested the locks %q", got)
	}
	first := a.startRequest()
	d.eventually("the lock is held", func() bool { return l.heldBy(pid) == 1 })
	second := a.startRequest()
	a.trayItem().click("Open Headroom")
	w := a.waitWindow()
	first()
	if got := l.heldBy(pid); got != 1 {
		t.Errorf("%d locks are held during a request", got)
	}
	second()
	d.eventually("the lock is released", func() bool { return l.heldBy(pid) == 0 })
	for name, other := range map[string]int{"window": w.pid, "worker": a.worker()} {
		if n := l.heldBy(other); n != 0 {
			t.Errorf("the %s holds %d locks", name, n)
		}
	}
	third := a.startRequest()
	d.eventually("a lock is held again", func() bool { return l.heldBy(pid) == 1 })
	third()
	d.eventually("that lock is released", func() bool { return l.heldBy(pid) == 0 })
	if got := l.locks(); len(got) != 2 || got[0] != "idle Headroom block" {
		t.Errorf("the agent requested the locks %q, want two", got)
	}
	a.trayItem().click("Quit Headroom")
	a.waitEnd(0)
}
