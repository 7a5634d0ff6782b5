package window

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary also acts as the window program: it reports its input to the test over a
// connection.
//
//	obedient   ends with its input, as the window does
//	closing    closes its input at "show", like a window that a person closes, and ends when the
//	           connection says so
//	deaf       does not even end with its input
func TestMain(m *testing.M) {
	part, address := os.Getenv("WINDOW_TEST_PART"), os.Getenv(envAddress)
	if part == "" {
		os.Exit(m.Run())
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(3)
	}
	fmt.Fprintln(conn, "started", os.Getenv(envToken))
	if part == "closing" {
		os.Stdin.Close()
		fmt.Fprintln(conn, "closing")
		_, _ = bufio.NewReader(conn).ReadString('\n')
		os.Exit(0)
	}
	Listen(os.Stdin, func() { fmt.Fprintln(conn, "show") }, func() { fmt.Fprintln(conn, "end") })
	if part == "deaf" {
		select {}
	}
}

// stage is the test's side of the connections to the programs.
type stage struct {
	t        *testing.T
	listener net.Listener
}

func newStage(t *testing.T, part string, grace time.Duration) (*stage, *Supervisor) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	t.Setenv("WINDOW_TEST_PART", part)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Path: own, URL: listener.Addr().String(), Token: "secret", Grace: grace})
	t.Cleanup(s.Close)
	return &stage{t, listener}, s
}

// program waits for a program to start and returns what it reports.
func (s *stage) program() (net.Conn, *bufio.Scanner) {
	s.t.Helper()
	conn, err := s.listener.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	lines := bufio.NewScanner(conn)
	s.expect(lines, "started secret")
	return conn, lines
}

func (s *stage) expect(lines *bufio.Scanner, want string) {
	s.t.Helper()
	if !lines.Scan() || lines.Text() != want {
		s.t.Fatalf("the program says %q, want %q", lines.Text(), want)
	}
}

const long = time.Minute // a grace that no test waits for

func TestShowStartsOnceAndRaises(t *testing.T) {
	stage, s := newStage(t, "obedient", long)
	for range 3 {
		if err := s.Show(); err != nil {
			t.Fatal(err)
		}
	}
	_, lines := stage.program()
	stage.expect(lines, "show")
	stage.expect(lines, "show")
	if !s.Open() {
		t.Error("the program runs, but Open says no")
	}
	s.Close()
	stage.expect(lines, "end")
	if lines.Scan() {
		t.Errorf("after the end: %q", lines.Text())
	}
	if err := s.Show(); err == nil {
		t.Error("Show works after Close")
	}
	if s.Open() {
		t.Error("Open after Close")
	}
}

func TestShowAfterTheWindowWasClosed(t *testing.T) {
	stage, s := newStage(t, "closing", long)
	if err := s.Show(); err != nil {
		t.Fatal(err)
	}
	conn, lines := stage.program()
	stage.expect(lines, "closing")
	shown := make(chan error)
	go func() { shown <- s.Show() }() // in the moment between the click on the cross and the end
	fmt.Fprintln(conn, "end now")
	if err := <-shown; err != nil {
		t.Fatal(err)
	}
	second, _ := stage.program() // a new one: the wish was not lost
	fmt.Fprintln(second, "end now")
}

func TestStuckProgramIsKilled(t *testing.T) {
	stage, s := newStage(t, "deaf", time.Millisecond)
	if err := s.Show(); err != nil {
		t.Fatal(err)
	}
	_, lines := stage.program()
	s.Close()
	for lines.Scan() { // until the connection ends with the program
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
			t.Errorf("around %s lies %q, want %q", window, got, want)
		}
	}
	if got := Bundle(); got != "" {
		t.Errorf("the test lies in a bundle: %s", got)
	}
}
