//go:build !darwin

package notify

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// desktop is a fake org.freedesktop.Notifications at the other end of a direct connection.
type desktop struct {
	t            *testing.T
	conn         *dbus.Conn
	capabilities []string
	last         uint32
	notices      chan shownNotice
	closed       chan uint32
}

type shownNotice struct {
	id, replaces uint32
	title, body  string
	actions      []string
}

func (d *desktop) GetCapabilities() ([]string, *dbus.Error) { return d.capabilities, nil }

func (d *desktop) Notify(app string, replaces uint32, icon, title, body string, actions []string,
	_ map[string]dbus.Variant, timeout int32) (uint32, *dbus.Error) {
	if app != "Headroom" || timeout != -1 {
		d.t.Errorf("app %s, timeout %d", app, timeout)
	}
	id := replaces
	if id == 0 {
		d.last++
		id = d.last
	}
	d.notices <- shownNotice{id, replaces, title, body, actions}
	return id, nil
}

func (d *desktop) CloseNotification(id uint32) *dbus.Error {
	d.closed <- id
	return nil
}

// AddMatch is a method of the bus. This fake filters nothing.
func (d *desktop) AddMatch(string) *dbus.Error { return nil }

// newDesktop returns a desktop with these capabilities and a service that is connected to it.
func newDesktop(t *testing.T, capabilities ...string) (*desktop, *freedesktop) {
	t.Helper()
	ours, theirs := connectedPair(t)
	d := &desktop{t: t, conn: theirs, capabilities: capabilities,
		notices: make(chan shownNotice, 9), closed: make(chan uint32, 9)}
	if err := errors.Join(d.conn.Export(d, busPath, busInterface),
		d.conn.Export(d, "/org/freedesktop/DBus", "org.freedesktop.DBus")); err != nil {
		t.Fatal(err)
	}
	return d, &freedesktop{connect: func() (*dbus.Conn, error) { return ours, nil }}
}

// connectedPair returns two connected D-Bus clients. Each treats the other as a bus, to which it
// must authenticate first: authenticate answers in the bus's place.
func connectedPair(t *testing.T) (a, b *dbus.Conn) {
	t.Helper()
	nearA, farA := net.Pipe()
	nearB, farB := net.Pipe()
	go func() {
		a, b := authenticate(farA), authenticate(farB)
		go func() { _, _ = io.Copy(farA, b) }()
		_, _ = io.Copy(farB, a)
	}()
	connect := func(near net.Conn) *dbus.Conn {
		c, err := dbus.NewConn(near)
		if err == nil {
			err = c.Auth([]dbus.Auth{dbus.AuthAnonymous()})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	return connect(nearA), connect(nearB)
}

// authenticate authenticates a client and returns the rest of its stream.
func authenticate(client net.Conn) io.Reader {
	r := bufio.NewReader(client)
	for {
		line, err := r.ReadString('\n')
		switch line = strings.Trim(line, "\x00\r\n"); {
		case err != nil || line == "BEGIN":
			return r
		case line == "AUTH":
			fmt.Fprint(client, "REJECTED ANONYMOUS\r\n")
		default:
			fmt.Fprint(client, "OK 0123456789abcdef0123456789abcdef\r\n")
		}
	}
}

func (d *desktop) emit(signal string, values ...any) {
	d.t.Helper()
	if err := d.conn.Emit(busPath, busInterface+"."+signal, values...); err != nil {
		d.t.Fatal(err)
	}
}

func wait[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("timeout: waited for " + what)
		panic("unreachable")
	}
}

func TestFreedesktop(t *testing.T) {
	d, f := newDesktop(t, "body", "actions", "body-markup")
	clicked := make(chan string, 9)
	show := func(key, title, body string) shownNotice {
		t.Helper()
		if err := f.Show(Notice{Key: key, Title: title, Body: body, Label: "Start"},
			func() { clicked <- title }); err != nil {
			t.Fatal(err)
		}
		return wait(t, "the notice", d.notices)
	}
	first := show("model a", "a", "<b> & c")
	if first.title != "a" || first.body != "&lt;b&gt; &amp; c" ||
		!slices.Equal(first.actions, []string{"default", "Start", "open", "Start"}) {
		t.Errorf("shown: %+v", first)
	}
	if again := show("model a", "a2", ""); again.replaces != first.id {
		t.Errorf("a second notice with the key replaces %d, want %d", again.replaces, first.id)
	}
	other := show("model b", "b", "")
	if other.replaces != 0 {
		t.Errorf("a notice with another key replaces %d", other.replaces)
	}

	d.emit("ActionInvoked", uint32(77), "default") // another program's notice
	d.emit("ActionInvoked", other.id, "open")
	if got := wait(t, "the click", clicked); got != "b" {
		t.Errorf("clicked %s", got)
	}
	d.emit("ActionInvoked", first.id, "default")
	if got := wait(t, "the click", clicked); got != "a2" {
		t.Errorf("clicked %s", got)
	}

	d.emit("NotificationClosed", other.id, uint32(2))
	d.emit("ActionInvoked", other.id, "default")
	d.emit("ActionInvoked", first.id, "default")
	if got := wait(t, "the click", clicked); got != "a2" {
		t.Errorf("a closed notice was clicked: %s", got)
	}

	f.Close()
	if id := wait(t, "the notice to close", d.closed); id != first.id {
		t.Errorf("Close removed the notice %d, want %d", id, first.id)
	}
	if err := f.Show(Notice{}, nil); err == nil {
		t.Error("Show after Close succeeded")
	}
}

// A desktop that supports neither buttons nor markup gets neither.
func TestFreedesktopPlain(t *testing.T) {
	d, f := newDesktop(t, "body")
	if err := f.Show(Notice{Key: "k", Title: "t", Body: "<b>", Label: "Start"},
		func() {}); err != nil {
		t.Fatal(err)
	}
	if n := wait(t, "the notice", d.notices); n.body != "<b>" || len(n.actions) != 0 {
		t.Errorf("shown: %+v", n)
	}
}

func TestNoBus(t *testing.T) {
	f := &freedesktop{connect: func() (*dbus.Conn, error) { return nil, errors.New("no bus") }}
	if err := f.Show(Notice{}, nil); err == nil {
		t.Error("Show without a session bus succeeded")
	}
	f.Close()
}
