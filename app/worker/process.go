package worker

// A process: two pipes to speak through, what it says on stderr when it ends badly, and how it
// ended.

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

// The worker's ends of the pipes: the first descriptors behind stderr.
const (
	inDescriptor  = 3
	outDescriptor = 4
)

// graceTime is how long a process may go on after it has closed its pipe, and how long its
// descendants may hold its stderr.
const graceTime = 3 * time.Second

type process struct {
	pid    int
	log    *slog.Logger
	outbox *outbox
	said   *said
	ended  chan struct{} // closed when it has been reaped

	command   *exec.Cmd
	replies   io.ReadCloser
	killsThen int64 // of the system, for lack of memory, when it began

	mu  sync.Mutex
	why string // we ended it; "": we did not
}

// start starts a process, which waits for messages. listen must be called.
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
	p := &process{log: o.log(), said: &said{}, ended: make(chan struct{}), replies: replies,
		killsThen: outOfMemoryKills()}
	p.command = exec.Command(words[0], words[1:]...)
	p.command.ExtraFiles = []*os.File{in, out}
	p.command.Stderr = p.said
	p.command.WaitDelay = graceTime
	// Ctrl-C is for the parent, which lets answers end
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

// listen hands each message to hear until the process has ended, which a message that is none, or
// that hear refuses, brings about.
func (p *process) listen(hear func(*fromWorker) error) {
	err := p.greeted(hear)
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		// half a message is a process that died in it
		p.blame("it was ended, as it cannot be understood: " + err.Error() +
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

// greeted reads to the end, logs what is to be logged, and holds the worker to the version it says
// first.
func (p *process) greeted(hear func(*fromWorker) error) error {
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
			if err := hear(&message); err != nil {
				return err
			}
		}
	}
}

// blame keeps why we end the process, the first reason of several.
func (p *process) blame(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = cmp.Or(p.why, why)
}

// end ends a process that hangs: Go says first what its goroutines do, for the log.
func (p *process) end(why string) {
	p.blame(why)
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	late := time.AfterFunc(graceTime, p.kill)
	defer late.Stop()
	<-p.ended
}

// kill ends the process at once. It may have ended.
func (p *process) kill() { _ = p.command.Process.Kill() }

// how says how the process ended, as the reason in a Problem. It has ended.
func (p *process) how() string {
	p.mu.Lock()
	why := p.why
	p.mu.Unlock()
	if why != "" {
		return why
	}
	words := describe(p.command.ProcessState, outOfMemoryKills() > p.killsThen)
	if line := p.said.reason(); line != "" {
		words += "; it said: " + line
	}
	return words
}

// describe words an end. killed: the system has ended a process for lack of memory meanwhile.
func describe(s *os.ProcessState, killed bool) string {
	if s == nil {
		return "nobody could wait for its end"
	}
	status, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !status.Signaled():
		return fmt.Sprintf("it ended with exit code %d", s.ExitCode())
	case status.Signal() == syscall.SIGKILL && killed:
		return "the system ended it because memory ran out"
	case status.Signal() == syscall.SIGKILL:
		return "it was killed by another program, or by the system, which does that when memory " +
			"runs out"
	}
	return "it was ended by the signal " + unix.SignalName(status.Signal())
}

// said is the end of what the process wrote to stderr. Go's words and those of a GPU driver come
// there.
type said struct {
	mu   sync.Mutex
	text []byte
	why  string // the first line that tells why
}

const (
	maxSaidBytes   = 32 << 10
	maxReasonBytes = 300
)

// Write never fails: a full pipe would hold the process up.
func (s *said) Write(data []byte) (int, error) {
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
	s.text = s.text[max(0, len(s.text)-maxSaidBytes):]
	return len(data), nil
}

// tellsWhy knows the line that Go, the C library and Apple's frameworks say before they end a
// process; traces come behind it.
func tellsWhy(line string) bool {
	for _, beginning := range []string{"panic: ", "fatal error: ", "runtime: out of memory",
		"-[MTL", "failed assertion"} {
		if strings.HasPrefix(line, beginning) {
			return true
		}
	}
	return strings.Contains(line, "failed assertion")
}

// reason is the line that tells why, or else the last one.
func (s *said) reason() string {
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

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.text))
}
