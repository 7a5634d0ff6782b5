package worker

// The process of a worker: two pipes for messages, the end of its stderr, and how it ended.

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

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

	mu     sync.Mutex
	killed ending // why the parent killed the process; zero: it did not
}

// start starts a process. The caller must call listen. The error is a Problem.
func start(o Options) (*process, error) {
	words, err := o.command()
	if err != nil {
		return nil, startProblem(err)
	}
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, startProblem(err)
	}
	defer in.Close()
	replies, out, err := os.Pipe()
	if err != nil {
		requests.Close()
		return nil, startProblem(err)
	}
	defer out.Close()
	p := &process{log: o.log(), stderr: &stderrTail{}, ended: make(chan struct{}), replies: replies}
	p.oomKillsAtStart, _ = outOfMemoryKills()
	p.command = exec.Command(words[0], words[1:]...)
	p.command.ExtraFiles = []*os.File{in, out}
	p.command.Stderr = p.stderr
	p.command.WaitDelay = graceTime
	// Ctrl-C in a terminal must reach only the parent, which lets running requests finish.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		requests.Close()
		replies.Close()
		return nil, startProblem(err)
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
		p.setKilled(ending{"it was ended because its message cannot be read: " + err.Error() +
			"; was Headroom updated while it ran?", true})
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

// setKilled records why the parent kills the process. Only the first reason counts.
func (p *process) setKilled(why ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = cmp.Or(p.killed, why)
}

// killHung kills a process that hangs. SIGQUIT comes first: it makes Go print the stacks of all
// goroutines, which the log shows. A stopped process must continue to do that.
func (p *process) killHung(why ending) {
	p.setKilled(why)
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	p.wake()
	late := time.AfterFunc(graceTime, p.kill)
	defer late.Stop()
	<-p.ended
}

// wake continues the process if the system has stopped it.
func (p *process) wake() { _ = p.command.Process.Signal(syscall.SIGCONT) }

// kill kills the process. It may have ended already.
func (p *process) kill() { _ = p.command.Process.Kill() }

// ending returns how the process ended. The process must have ended.
func (p *process) ending() ending {
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
	if killed.reason != "" {
		return killed
	}
	kills, known := outOfMemoryKills()
	return describe(p.command.ProcessState, p.stderr,
		memoryKills{happened: kills > p.oomKillsAtStart, known: known})
}

// exitReason returns how the process ended, for Problem.Why. The process must have ended.
func (p *process) exitReason() string { return p.ending().reason }

// passingLacks are the errors of a lack that passes by itself, when other programs or requests end.
var passingLacks = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN,
	syscall.ENOSPC, syscall.EDQUOT}

// lackTime is when an attempt after a passing lack may succeed.
const lackTime = time.Second

// passes reports whether err comes from a passing lack.
func passes(err error) bool {
	for _, lack := range passingLacks {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

// startProblem returns the Problem of a process that could not be started.
func startProblem(err error) error {
	if !passes(err) {
		return problem.Wrap(problem.Internal, err, "The model's process cannot be started",
			"Quit Headroom and start it again.")
	}
	p := problem.Wrap(problem.LowResources, err, "The model's process cannot be started now", "")
	p.RetryAfter = lackTime
	return p
}
