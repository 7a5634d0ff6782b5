package worker

// A worker's process: two pipes for messages, the end of its stderr, and how it ended.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/problem"
)

// The file descriptors of the worker's pipe ends: the first ones after stderr.
const (
	inDescriptor  = 3
	outDescriptor = 4
)

// graceTime is how long a process may run after it has closed its pipe, and how long its
// descendants may keep its stderr open.
const graceTime = 3 * time.Second

type process struct {
	pid    int
	log    *slog.Logger
	outbox *outbox
	stderr *stderrTail
	ended  chan struct{} // closed when the process has been reaped

	command   *exec.Cmd
	replies   io.ReadCloser
	killsThen int64 // the system's out-of-memory kills when the process started

	mu  sync.Mutex
	why string // why we ended the process; "": we did not
}

// start starts a process. The caller must call listen.
func start(o Options) (*process, error) {
	refused := func(err error) error {
		return problem.Wrap(problem.Internal, err, "The model's process cannot be started",
			"Quit Headroom and start it again.")
	}
	words, err := o.command()
	if err != nil {
		return nil, refused(err)
	}
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, refused(err)
	}
	defer in.Close()
	replies, out, err := os.Pipe()
	if err != nil {
		requests.Close()
		return nil, refused(err)
	}
	defer out.Close()
	p := &process{log: o.log(), stderr: &stderrTail{}, ended: make(chan struct{}), replies: replies,
		killsThen: outOfMemoryKills()}
	p.command = exec.Command(words[0], words[1:]...)
	p.command.ExtraFiles = []*os.File{in, out}
	p.command.Stderr = p.stderr
	p.command.WaitDelay = graceTime
	// Ctrl-C in a terminal must reach only the parent, which lets answers finish.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		requests.Close()
		replies.Close()
		return nil, refused(err)
	}
	p.pid = p.command.Process.Pid
	p.outbox = newOutbox(requests)
	return p, nil
}

// listen calls handle with each message until the process has ended. It kills the process after a
// malformed message, or one for which handle returns an error.
func (p *process) listen(handle func(*fromWorker) error) {
	err := p.receive(handle)
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		// io.ErrUnexpectedEOF means that the process died while it wrote a message.
		p.blame("it was ended because its message cannot be read: " + err.Error() +
			"; was Headroom updated while it ran?")
		p.kill()
	}
	late := time.AfterFunc(graceTime, p.kill)
	_ = p.command.Wait()
	late.Stop()
	_ = p.replies.Close()
	p.outbox.close()
	<-p.outbox.done
	close(p.ended)
}

// receive reads messages until the pipe ends. It checks the version of the first one, and writes
// log records to the log.
func (p *process) receive(handle func(*fromWorker) error) error {
	in := newInbox(p.replies)
	for first := true; ; first = false {
		var message fromWorker
		if err := in.receive(&message); err != nil {
			return err
		}
		switch {
		case first:
			if err := message.Hello.check(); err != nil {
				return err
			}
		case message.Log != nil:
			message.Log.write(p.log)
		default:
			if err := handle(&message); err != nil {
				return err
			}
		}
	}
}

// blame records why we end the process. The first reason counts.
func (p *process) blame(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = cmp.Or(p.why, why)
}

// end ends a process that hangs. SIGQUIT makes Go print its goroutines first, for the log.
func (p *process) end(why string) {
	p.blame(why)
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	late := time.AfterFunc(graceTime, p.kill)
	defer late.Stop()
	<-p.ended
}

// kill ends the process at once. The process may have ended already.
func (p *process) kill() { _ = p.command.Process.Kill() }

// exitReason returns how the process ended, for Problem.Why. The process must have ended.
func (p *process) exitReason() string {
	p.mu.Lock()
	why := p.why
	p.mu.Unlock()
	if why != "" {
		return why
	}
	words := describe(p.command.ProcessState, outOfMemoryKills() > p.killsThen)
	if line := p.stderr.reason(); line != "" {
		words += "; its last output: " + line
	}
	return words
}

// describe returns how a process ended. outOfMemory means that the system has killed a process for
// lack of memory since this one started.
func describe(s *os.ProcessState, outOfMemory bool) string {
	if s == nil {
		return "how it ended is unknown"
	}
	status, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !status.Signaled():
		return fmt.Sprintf("it ended with exit code %d", s.ExitCode())
	case status.Signal() == syscall.SIGKILL && outOfMemory:
		return "the system ended it because memory ran out"
	case status.Signal() == syscall.SIGKILL:
		return "it was killed by another program, or by the system because memory ran out"
	}
	return "it was ended by the signal " + unix.SignalName(status.Signal())
}

// stderrTail keeps the end of what the process wrote to stderr: Go's panics and the messages of GPU
// drivers.
type stderrTail struct {
	mu   sync.Mutex
	text []byte
	why  string // the first line that says why the process ended
}

const (
	maxTailBytes   = 32 << 10
	maxReasonBytes = 300
)

// Write never fails, because a full pipe would block the process.
func (s *stderrTail) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, data...)
	if s.why == "" {
		for line := range strings.Lines(string(s.text)) {
			if strings.HasSuffix(line, "\n") && tellsWhy(line) {
				s.why = line
				break
			}
		}
	}
	s.text = s.text[max(0, len(s.text)-maxTailBytes):]
	return len(data), nil
}

// tellsWhy reports whether a line is one that Go, the C library or Apple's frameworks print before
// they end a process. Stack traces follow that line.
func tellsWhy(line string) bool {
	for _, beginning := range []string{"panic: ", "fatal error: ", "runtime: out of memory",
		"-[MTL", "failed assertion"} {
		if strings.HasPrefix(line, beginning) {
			return true
		}
	}
	return strings.Contains(line, "failed assertion")
}

// reason returns the line that says why the process ended, else the last line.
func (s *stderrTail) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.why
	if line == "" {
		text := strings.TrimRight(string(s.text), "\n \t")
		line = text[strings.LastIndexByte(text, '\n')+1:]
	}
	if line = strings.TrimSpace(line); len(line) > maxReasonBytes {
		line = strings.ToValidUTF8(line[:maxReasonBytes], "") + "…"
	}
	return line
}

func (s *stderrTail) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.text))
}
