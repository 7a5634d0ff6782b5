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

// The menu-bar host is killed and restarts. The agent keeps running. Its icon then returns with the
// current state, and clicks work.
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
		t.Fatalf("the panel is process %d, its icons' process is %d", panel, host)
	}
	for _, pid := range []int{panel, host} { // the icons may have a separate process
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && pid == panel {
			t.Fatal(err)
		}
	}
	d.eventually("nobody hosts icons", func() bool { return owner(t, conn, watcherName) == 0 })

	t.Log("without a host the engine is started by the window's way")
	a.post("api/engine/start", `{}`)
	a.waitStatus("ready")

	d.panel()
	d.eventually("somebody hosts icons again",
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

// panel starts a new panel, which runs until the display closes, because later tests need it.
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

// logind is a fake of the system service that keeps a computer awake. Each lock is a pipe, held
// until no other process has its end open.
type logind struct {
	d *desktop

	mu    sync.Mutex
	asked []string        // the arguments what, who and mode of each lock
	pipes map[string]bool // by their names in /proc
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
	l.pipes[name] = true // our end stays open; /proc shows which other processes have it
	l.d.t.Cleanup(func() { r.Close(); w.Close() })
	return dbus.UnixFD(w.Fd()), nil
}

// locks returns the requested locks.
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

// The agent keeps the computer awake while a request runs, and no longer. A window or a worker that
// starts meanwhile holds no lock.
func TestDesktopNoSleep(t *testing.T) {
	d := newDesktop(t)
	l := d.logind()
	a := d.start("--start")
	a.waitStatus("ready")
	pid := a.command.Process.Pid
	if got := l.locks(); len(got) != 0 {
		t.Errorf("without a request, the agent requested the locks %q", got)
	}
	first := a.askAtLength()
	d.eventually("the lock is held", func() bool { return l.heldBy(pid) == 1 })
	second := a.askAtLength()
	a.trayItem().click("Open Headroom")
	w := a.waitWindow()
	first()
	if got := l.heldBy(pid); got != 1 {
		t.Errorf("%d locks are held during a request", got)
	}
	second()
	d.eventually("the lock is given back", func() bool { return l.heldBy(pid) == 0 })
	for name, other := range map[string]int{"window": w.pid, "worker": a.worker()} {
		if n := l.heldBy(other); n != 0 {
			t.Errorf("the %s holds %d locks", name, n)
		}
	}
	third := a.askAtLength()
	d.eventually("it is held again", func() bool { return l.heldBy(pid) == 1 })
	third()
	d.eventually("nothing is held", func() bool { return l.heldBy(pid) == 0 })
	if got := l.locks(); len(got) != 2 || got[0] != "idle Headroom block" {
		t.Errorf("the agent requested %q, want two locks", got)
	}
	a.trayItem().click("Quit Headroom")
	a.waitEnd(0)
}
