// Package window connects the agent and the window program; the window itself is in another
// package. On the agent's side, a Supervisor (this file) starts the program, raises its window and
// ends it. On the program's side (inside.go), Listen reads the agent's commands, and an Agent
// forwards requests to it.
//
// The agent writes commands to the program's stdin, one on each line. "show" raises the window,
// "show PLACE" also goes to a place in it, such as a page. The
// program ends when its input ends, so it never outlives the agent. A window that is closing closes
// its input first, so that no "show" is lost. Address and token are passed in the environment,
// which other users cannot read.
//
// At most one window program runs for a Supervisor.
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

// The environment variables of the window program.
const (
	envAddress = "HEADROOM_API"
	envToken   = "HEADROOM_TOKEN"
	envPlace   = "HEADROOM_PLACE" // where a new window begins; may be ""
	envState   = "HEADROOM_WINDOW_STATE"
)

// showWord is the command that raises the window. A place may follow it.
const showWord = "show"

// Options configure a Supervisor. Path, URL and Token are required.
type Options struct {
	Path  string        // path of the window program; see Find
	URL   string        // URL of the agent, such as "http://127.0.0.1:11811/"
	Token string        // for the control API
	State string        // path of the file of a Look; "": it is not kept
	Grace time.Duration // between asking the program to end and killing it; 0 means 3 s
	Log   *slog.Logger  // nil: slog.Default()
}

// Supervisor runs the window program on demand. Its methods may be called from any goroutine.
type Supervisor struct {
	options Options

	mu     sync.Mutex
	closed bool
	input  io.WriteCloser // of the last program
	ended  chan struct{}  // closed when that program has ended; nil if none was started
	kill   func() error
}

// New returns a Supervisor without a window.
func New(o Options) *Supervisor {
	if o.Grace == 0 {
		o.Grace = 3 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Supervisor{options: o}
}

// Application is the path of the window's application inside the Contents folder of Headroom.app.
// It is a separate application because it has a Dock icon and the agent has none, and that is set
// in the Info.plist of the bundle around each program.
const Application = "Helpers/Headroom Window.app"

// program is the file name of the window program.
const program = "headroom-window"

// Find returns the path of the window program.
func Find() (string, error) {
	own, err := own()
	if err != nil {
		return "", err
	}
	return beside(own), nil
}

// beside returns the path of the window program for the agent at that path: in the application
// inside the bundle, or else beside the agent.
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

// Bundle returns the path of Headroom.app that contains this window program, "" outside a bundle.
func Bundle() string {
	own, err := own()
	if err != nil {
		return ""
	}
	return around(own)
}

// around returns the bundle that contains the window program at that path, "" for none.
func around(window string) string {
	bundle, found := strings.CutSuffix(enclosing(window), "/Contents/"+Application)
	if !found {
		return ""
	}
	return bundle
}

// enclosing returns the application that contains the program at that path, "" for none.
func enclosing(path string) string {
	app, found := strings.CutSuffix(filepath.Dir(path), "/Contents/MacOS")
	if !found || !strings.HasSuffix(app, ".app") {
		return ""
	}
	return app
}

// own returns the path of this program with links resolved.
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
func (s *Supervisor) Show() error { return s.ShowAt("") }

// ShowAt does what Show does, and goes to a place in the window: a fragment of its address, such as
// "page=models". "" leaves it where it is. The error is a Problem.
func (s *Supervisor) ShowAt(place string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return problem.New(problem.NotRunning, "Headroom is shutting down", "", "")
	}
	if s.running() {
		line := strings.TrimSpace(showWord+" "+place) + "\n"
		if _, err := io.WriteString(s.input, line); err == nil {
			return nil
		}
		s.await(s.ended, s.kill) // the old program is ending; start another
	}
	return s.start(place)
}

// start runs the program. The caller holds mu.
func (s *Supervisor) start(place string) error {
	command := exec.Command(s.options.Path)
	command.Env = append(os.Environ(), envAddress+"="+s.options.URL, envToken+"="+s.options.Token,
		envPlace+"="+place, envState+"="+s.options.State)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fix := "Install Headroom again, or open the web UI in a browser."
		if errors.Is(err, os.ErrNotExist) {
			fix = "Build it with make build, or open the web UI in a browser: headroom serve " +
				"prints its address."
		}
		return problem.Wrap(problem.Internal, err, "The window cannot be opened", fix)
	}
	ended := make(chan struct{})
	s.input, s.ended, s.kill = input, ended, command.Process.Kill
	s.options.Log.Debug("window started", "pid", command.Process.Pid)
	go func() {
		err := command.Wait() // closes input, too
		s.options.Log.Debug("window ended", "err", err)
		close(ended)
	}()
	return nil
}

// Open reports whether the window program is running.
func (s *Supervisor) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}

// running reports what Open reports. The caller holds mu.
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

// Close ends the window program and waits until it has ended. After that, Show fails.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	running, input, ended, kill := s.running(), s.input, s.ended, s.kill
	s.mu.Unlock()
	if !running {
		return
	}
	_ = input.Close() // asks the program to end
	s.await(ended, kill)
}

// await waits until the program has ended, and kills it after the grace period.
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
