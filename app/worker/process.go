package worker

// The process of a worker: two pipes for messages, the end of its stderr, and how it ended.

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

// graceTime is how long a process may run after it has closed its pipe or received SIGQUIT, and how
// long its child processes may keep its stderr open after that.
const graceTime = 3 * time.Second

type process struct {
	pid    int
	log    *slog.Logger
	outbox *outbox
	stderr *stderrTail
	ended  chan struct{} // closed when the process has been reaped

	command         *exec.Cmd
	replies         io.ReadCloser
	oomKillsAtStart int64 // outOfMemoryKills when the process started

	mu         sync.Mutex
	killReason string // why the parent killed the process; "": it did not
}

// start starts a process. The caller must call listen. The error is a Problem.
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
		oomKillsAtStart: outOfMemoryKills()}
	p.command = exec.Command(words[0], words[1:]...)
	p.command.ExtraFiles = []*os.File{in, out}
	p.command.Stderr = p.stderr
	p.command.WaitDelay = graceTime
	// Ctrl-C in a terminal must reach only the parent, which lets running requests finish.
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
		p.setKillReason("it was ended because its message cannot be read: " + err.Error() +
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

// receive calls handle with each message until the pipe ends. The first message must be a Hello of
// this version. Log records go to the log.
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

// setKillReason records why the parent kills the process. Only the first reason counts.
func (p *process) setKillReason(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killReason = cmp.Or(p.killReason, why)
}

// killHung kills a process that hangs. SIGQUIT comes first: it makes Go print the stacks of all
// goroutines, which the log shows.
func (p *process) killHung(why string) {
	p.setKillReason(why)
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	late := time.AfterFunc(graceTime, p.kill)
	defer late.Stop()
	<-p.ended
}

// kill kills the process. It may have ended already.
func (p *process) kill() { _ = p.command.Process.Kill() }

// exitReason returns how the process ended, for Problem.Why. The process must have ended.
func (p *process) exitReason() string {
	p.mu.Lock()
	killReason := p.killReason
	p.mu.Unlock()
	if killReason != "" {
		return killReason
	}
	reason := describe(p.command.ProcessState, outOfMemoryKills() > p.oomKillsAtStart)
	if line := p.stderr.reason(); line != "" {
		reason += "; its last output: " + line
	}
	return reason
}

// describe says how a process ended. outOfMemory means that the system has killed some process for
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

// stderrTail keeps the end of the process's stderr, such as Go's panics and the messages of GPU
// drivers.
type stderrTail struct {
	mu        sync.Mutex
	text      []byte
	deathLine string // the first line that says why the process ended
}

const (
	maxTailBytes   = 32 << 10
	maxReasonBytes = 300
)

// Write implements io.Writer. It never fails: after an error nobody would read the pipe, and a full
// pipe would block the process.
func (s *stderrTail) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, data...)
	if s.deathLine == "" {
		for line := range strings.Lines(string(s.text)) {
			if strings.HasSuffix(line, "\n") && saysWhy(line) {
				s.deathLine = line
				break
			}
		}
	}
	s.text = s.text[max(0, len(s.text)-maxTailBytes):]
	return len(data), nil
}

// saysWhy reports whether Go, the C library or Apple's frameworks print a line like this one before
// they end the process. Go prints stack traces after it.
func saysWhy(line string) bool {
	for _, prefix := range []string{"panic: ", "fatal error: ", "runtime: out of memory",
		"-[MTL", "failed assertion"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return strings.Contains(line, "failed assertion")
}

// reason returns the line that says why the process ended, or else the last line.
func (s *stderrTail) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.deathLine
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
