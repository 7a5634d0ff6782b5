package window

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary also acts as the window program. It reports its input to the test over a
// connection. WINDOW_TEST_MODE says how it behaves:
//
//	normal     ends when its input ends, as the window does
//	closing    closes its input, like a window that the user closes, and ends when it receives a
//	           line
//	hung       does not end when its input ends
func TestMain(m *testing.M) {
	mode, address := os.Getenv("WINDOW_TEST_MODE"), os.Getenv(envAddress)
	if mode == "" {
		os.Exit(m.Run())
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(3)
	}
	fmt.Fprintln(conn, "started", os.Getenv(envToken)+os.Getenv(envPlace))
	if mode == "closing" {
		os.Stdin.Close()
		fmt.Fprintln(conn, "closing")
		_, _ = bufio.NewReader(conn).ReadString('\n')
		os.Exit(0)
	}
	Listen(os.Stdin, func(place string) { fmt.Fprintln(conn, "show"+place) },
		func() { fmt.Fprintln(conn, "end") })
	if mode == "hung" {
		select {}
	}
}

// programs accepts the connections of the window programs that a Supervisor starts.
type programs struct {
	t        *testing.T
	listener net.Listener
}

func newSupervisor(t *testing.T, mode string, grace time.Duration) (*Supervisor, *programs) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	t.Setenv("WINDOW_TEST_MODE", mode)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Path: own, URL: listener.Addr().String(), Token: "secret", Grace: grace})
	t.Cleanup(s.Close)
	return s, &programs{t, listener}
}

// next waits until a program has started. It returns the connection and the lines of its reports.
func (p *programs) next() (net.Conn, *bufio.Scanner) {
	p.t.Helper()
	conn, err := p.listener.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	lines := bufio.NewScanner(conn)
	p.expect(lines, "started secret")
	return conn, lines
}

func (p *programs) expect(lines *bufio.Scanner, want string) {
	p.t.Helper()
	if !lines.Scan() || lines.Text() != want {
		p.t.Fatalf("the program reports %q, want %q", lines.Text(), want)
	}
}

const longGrace = time.Minute // a grace period that no test waits for

func TestShowStartsOnceAndRaises(t *testing.T) {
	s, programs := newSupervisor(t, "normal", longGrace)
	for range 3 {
		if err := s.Show(); err != nil {
			t.Fatal(err)
		}
	}
	_, lines := programs.next()
	programs.expect(lines, "show")
	programs.expect(lines, "show")
	if !s.Open() {
		t.Error("the program is running, but Open returns false")
	}
	s.Close()
	programs.expect(lines, "end")
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
	if err := s.Show(); err == nil {
		t.Error("Show succeeds after Close")
	}
	if s.Open() {
		t.Error("Open returns true after Close")
	}
}

// TestShowAt passes a place to a running window, and to one that is started.
func TestShowAt(t *testing.T) {
	s, programs := newSupervisor(t, "normal", longGrace)
	if err := errors.Join(s.Show(), s.ShowAt("page=models")); err != nil {
		t.Fatal(err)
	}
	_, lines := programs.next()
	programs.expect(lines, "showpage=models")
	s.Close()
	own, _ := os.Executable()
	second := New(Options{Path: own, URL: programs.listener.Addr().String(), Token: "secret "})
	t.Cleanup(second.Close)
	if err := second.ShowAt("page=chat"); err != nil {
		t.Fatal(err)
	}
	conn, err := programs.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	programs.expect(bufio.NewScanner(conn), "started secret page=chat")
}

func TestShowWhileTheWindowCloses(t *testing.T) {
	s, programs := newSupervisor(t, "closing", longGrace)
	if err := s.Show(); err != nil {
		t.Fatal(err)
	}
	conn, lines := programs.next()
	programs.expect(lines, "closing")
	shown := make(chan error)
	go func() { shown <- s.Show() }() // before the closing program has ended
	fmt.Fprintln(conn, "end now")
	if err := <-shown; err != nil {
		t.Fatal(err)
	}
	second, _ := programs.next() // Show has started a new program
	fmt.Fprintln(second, "end now")
}

func TestHungProgramIsKilled(t *testing.T) {
	s, programs := newSupervisor(t, "hung", time.Millisecond)
	if err := s.Show(); err != nil {
		t.Fatal(err)
	}
	_, lines := programs.next()
	s.Close()
	for lines.Scan() { // until the program ends, which closes the connection
	}
}

func TestMissingProgram(t *testing.T) {
	s := New(Options{Path: filepath.Join(t.TempDir(), "headroom-window")})
	err := s.Show()
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v", err)
	}
	s.Close()
}

func TestFindLooksBesideThisProgram(t *testing.T) {
	path, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	own, _ := os.Executable()
	own, _ = filepath.EvalSymlinks(own)
	if want := filepath.Join(filepath.Dir(own), "headroom-window"); path != want {
		t.Errorf("%s, want %s", path, want)
	}
}

// TestPlaces: in a bundle the window is a separate application. Elsewhere it is in the agent's
// folder.
func TestPlaces(t *testing.T) {
	const bundle = "/Applications/Headroom.app"
	for agent, want := range map[string]string{
		"/opt/headroom/headroom-agent": "/opt/headroom/headroom-window",
		bundle + "/Contents/MacOS/headroom-agent": bundle +
			"/Contents/Helpers/Headroom Window.app/Contents/MacOS/headroom-window",
		"/src/Contents/MacOS/headroom-agent": "/src/Contents/MacOS/headroom-window",
		"/x.app/bin/headroom-agent":          "/x.app/bin/headroom-window",
	} {
		if got := beside(agent); got != want {
			t.Errorf("%s: %s, want %s", agent, got, want)
		}
	}
	for window, want := range map[string]string{
		beside(bundle + "/Contents/MacOS/headroom-agent"):        bundle,
		"/opt/headroom/headroom-window":                          "",
		"/Applications/Other.app/Contents/MacOS/headroom-window": "",
	} {
		if got := around(window); got != want {
			t.Errorf("around(%q) = %q, want %q", window, got, want)
		}
	}
	if got := Bundle(); got != "" {
		t.Errorf("Bundle returns %q for the test binary", got)
	}
}
