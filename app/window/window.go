// Package window is both ends of the window program, without the window: the agent's (this file)
// starts it, raises it and ends it; the program's own (inside.go) reads the agent's wishes and
// passes requests on to it.
//
// The agent speaks to it on its stdin, a line a word: "show" raises it, the end of the input ends
// it. So it never outlives the agent, however that ended. A window that is being closed closes its
// end first, so that no "show" is lost. Address and token go by the environment, which other users
// cannot read.
//
// Invariant: at most one window program runs for a Supervisor.
package window

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"headroom/engine/problem"
)

// The environment of the window program.
const (
	envAddress = "HEADROOM_API"
	envToken   = "HEADROOM_TOKEN"
)

// showWord is the line that raises the window.
const showWord = "show\n"

// Options configure a Supervisor. Path, URL and Token are required.
type Options struct {
	Path  string        // of the window program; see Find
	URL   string        // of the agent: "http://127.0.0.1:11811/"
	Token string        // of the control API
	Grace time.Duration // between asking the program to end and ending it; 0: 3 s
	Log   *slog.Logger  // nil: slog.Default()
}

// Supervisor runs the window program on demand. Its methods may be called from any goroutine.
type Supervisor struct {
	options Options

	mu     sync.Mutex
	closed bool
	input  io.WriteCloser // of the last program
	ended  chan struct{}  // closed when that program has ended; nil: none was started
	kill   func() error
}

// New makes a Supervisor; no window yet.
func New(o Options) *Supervisor {
	if o.Grace == 0 {
		o.Grace = 3 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Supervisor{options: o}
}

// Application is the window's own application inside a Mac's bundle, from the bundle's Contents. It
// is one because the agent has no Dock icon and the window has: both follow from the Info.plist
// that a program finds around itself.
const Application = "Helpers/Headroom Window.app"

// program is the window program's file.
const program = "headroom-window"

// Find returns the path of the window program.
func Find() (string, error) {
	own, err := own()
	if err != nil {
		return "", err
	}
	return beside(own), nil
}

// beside is where the window program of the agent at that path lies: in the application inside the
// bundle, else beside the agent.
func beside(agent string) string {
	if bundle := enclosing(agent); bundle != "" {
		return filepath.Join(bundle, "Contents", Application, "Contents", "MacOS", program)
	}
	name := program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(filepath.Dir(agent), name)
}

// Bundle returns the bundle that this program, the window's, lies in: Headroom.app. It is ""
// outside of one.
func Bundle() string {
	own, err := own()
	if err != nil {
		return ""
	}
	return around(own)
}

// around is the bundle around the window program at that path, "" if there is none.
func around(window string) string {
	bundle, found := strings.CutSuffix(enclosing(window), "/Contents/"+Application)
	if !found {
		return ""
	}
	return bundle
}

// enclosing is the application whose program lies at that path, "" for a program that is in none.
func enclosing(path string) string {
	app, found := strings.CutSuffix(filepath.Dir(path), "/Contents/MacOS")
	if !found || !strings.HasSuffix(app, ".app") {
		return ""
	}
	return app
}

// own is the path of this program, by no link.
func own() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's folder: %w", err)
	}
	if real, err := filepath.EvalSymlinks(own); err == nil {
		own = real
	}
	return own, nil
}

// Show opens the window, or raises it if it is open. The error is a Problem.
func (s *Supervisor) Show() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return problem.New(problem.NotRunning, "Headroom is shutting down", "", "")
	}
	if s.running() {
		if _, err := io.WriteString(s.input, showWord); err == nil {
			return nil
		}
		s.await(s.ended, s.kill) // it is on its way out: another one takes its place
	}
	return s.start()
}

// start runs the program. The caller holds mu.
func (s *Supervisor) start() error {
	command := exec.Command(s.options.Path)
	command.Env = append(os.Environ(), envAddress+"="+s.options.URL, envToken+"="+s.options.Token)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fix := "Install Headroom again, or open the web UI in a browser."
		if errors.Is(err, os.ErrNotExist) {
			fix =
				"Build it with make build, or open the web UI in a browser: headroom serve " +
					"prints " +
					"its address."
		}
		return problem.Wrap(problem.Internal, err, "The window cannot be opened", fix)
	}
	ended := make(chan struct{})
	s.input, s.ended, s.kill = input, ended, command.Process.Kill
	s.options.Log.Debug("window started", "pid", command.Process.Pid)
	go func() {
		err := command.Wait() // closes input too
		s.options.Log.Debug("window ended", "err", err)
		close(ended)
	}()
	return nil
}

// Open tells whether the window program runs.
func (s *Supervisor) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}

// running is Open for who holds mu.
func (s *Supervisor) running() bool {
	if s.ended == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Close ends the window program and waits for that. Show fails afterwards.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	running, input, ended, kill := s.running(), s.input, s.ended, s.kill
	s.mu.Unlock()
	if !running {
		return
	}
	_ = input.Close() // the wish to end
	s.await(ended, kill)
}

// await returns when the program has ended, by itself or, after the grace, by force.
func (s *Supervisor) await(ended chan struct{}, kill func() error) {
	grace := time.NewTimer(s.options.Grace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		s.options.Log.Warn("the window did not end in time")
		_ = kill()
		<-ended
	}
}
