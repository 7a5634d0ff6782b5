package cluster

// The cluster's side of a node: a process, ssh or this program, whose stdin and stdout carry the
// messages.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"headroom/engine/problem"
)

// pingTime is the time between two pings, and lostTime that without a message after which a host
// counts as lost. The latter is below NodeSilence: when the cluster starts again, the ranks of a
// lost host may still run, but on ports that are used no more.
const (
	pingTime = 2 * time.Second
	lostTime = 10 * time.Second
)

// Shell says how commands run on hosts.
type Shell struct {
	// Program runs a node on this machine: this program. "": os.Executable's.
	Program string
	// SSH is the command in place of ssh; none: ssh. It gets the options of OpenSSH that Headroom
	// uses, the host and a command line for a shell.
	SSH []string
	// Remote is the path of headroom on the other hosts; "": it is looked for.
	Remote string

	local []string // tests: the command of a node on this machine
}

// places are where headroom is looked for on a host. A shell of ssh that is not a login shell has a
// short PATH on a Mac.
const places = `headroom "$HOME/.local/bin/headroom" /usr/local/bin/headroom ` +
	`/opt/homebrew/bin/headroom /Applications/Headroom.app/Contents/MacOS/headroom ` +
	`"$HOME/Applications/Headroom.app/Contents/MacOS/headroom"`

// noProgram is the exit code of the script if there is no headroom on the host.
const noProgram = 127

// command returns the command that runs a subcommand of `headroom cluster` on a host.
func (s Shell) command(h Host, words ...string) (*exec.Cmd, error) {
	if h.Local() {
		if s.local != nil {
			return exec.Command(s.local[0], append(s.local[1:len(s.local):len(s.local)],
				words...)...), nil
		}
		program := s.Program
		if program == "" {
			var err error
			if program, err = os.Executable(); err != nil {
				return nil, err
			}
		}
		return exec.Command(program, append([]string{"cluster"}, words...)...), nil
	}
	ssh := s.SSH
	if len(ssh) == 0 {
		ssh = []string{"ssh"}
	}
	// BatchMode: it fails instead of asking for a password. ControlMaster and ControlPath: it has a
	// connection of its own. Others of the user would end with one that it shares.
	args := append(ssh[1:len(ssh):len(ssh)], "-T", "-o", "BatchMode=yes", "-o",
		"ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2", "-o",
		"ControlMaster=no", "-o", "ControlPath=none", h.SSH, s.script(words))
	return exec.Command(ssh[0], args...), nil
}

// script returns the command line for the host's shell, whichever that is.
func (s Shell) script(words []string) string {
	where := places
	if s.Remote != "" {
		where = quoted(s.Remote)
	}
	script := fmt.Sprintf(`for p in %s; do if command -v "$p" >/dev/null 2>&1; then `+
		`exec "$p" cluster %s; fi; done; echo "headroom: not found" >&2; exit %d`, where,
		strings.Join(words, " "), noProgram)
	return "exec /bin/sh -c " + quoted(script)
}

// quoted quotes a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// peer is a connection to the node of a host.
type peer struct {
	host    Host
	command *exec.Cmd
	to      *lines
	stdin   io.Closer
	stderr  *tail
	ended   chan struct{} // closed when the process has ended

	mu      sync.Mutex
	next    int
	waiting map[int]func(*reply)
	heard   time.Time
	exited  bool  // the process; the number of its group may be another's
	err     error // why it was ended
}

// connect starts a node. Like exec.Command it does not wait for it: the first call does.
func connect(s Shell, h Host) (*peer, error) {
	c, err := s.command(h, "node")
	if err != nil {
		return nil, err
	}
	p := &peer{host: h, command: c, stderr: &tail{}, ended: make(chan struct{}),
		waiting: map[int]func(*reply){}, heard: time.Now()}
	c.Stderr = p.stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only this program
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, problem.Wrap(problem.LowResources, err, "The cluster cannot reach "+h.String(),
			"Check that ssh is installed.")
	}
	p.to, p.stdin = &lines{out: stdin}, stdin
	go p.listen(stdout)
	go p.ping()
	return p, nil
}

func (p *peer) listen(out io.Reader) {
	_ = readLines(out, func(r *reply) {
		p.mu.Lock()
		p.heard = time.Now()
		each := p.waiting[r.ID]
		if r.Done {
			delete(p.waiting, r.ID)
		}
		p.mu.Unlock()
		if each != nil {
			each(r)
		}
	})
	_ = p.stdin.Close()
	waitExit(p.command.Process.Pid)
	p.mu.Lock()
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // its children: they hold stderr
	p.exited = true
	p.mu.Unlock()
	err := p.command.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = p.lost(err)
	}
	close(p.ended)
}

// ping keeps the node running, and ends the connection if nothing is heard any more.
func (p *peer) ping() {
	tick := time.NewTicker(pingTime)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		silent := time.Since(p.heard)
		p.mu.Unlock()
		if silent > lostTime {
			p.end(problem.New(problem.Unresponsive, "The cluster has lost "+p.host.String(),
				fmt.Sprintf("nothing was heard for %d s", int(lostTime.Seconds())),
				"Check that it is on, awake and in the network."))
			return
		}
		// Not on this goroutine: writing blocks when the host reads no more.
		go func() { _ = p.to.write(request{Op: opPing}) }()
	}
}

// lost returns the Problem of a node that has ended by itself.
func (p *peer) lost(err error) error {
	var exit *exec.ExitError
	said, name := p.stderr.last(), p.host.String()
	if errors.As(err, &exit) && exit.ExitCode() == noProgram {
		return problem.New(problem.NotFound, "Headroom is not installed on "+name, "",
			"Install it there, or say where it is with --program.")
	}
	if errors.As(err, &exit) && exit.ExitCode() == 255 && !p.host.Local() { // that of ssh
		fix := "Check that it is on and in the network, and try: ssh " + p.host.SSH
		switch {
		case strings.Contains(said, "denied"):
			fix = "Let this machine log in without a password: ssh-copy-id " + p.host.SSH
		case strings.Contains(said, "verification failed"):
			fix = "Check the host's key by logging in once: ssh " + p.host.SSH
		case strings.Contains(said, "refused"):
			fix = "Turn on Remote Login there: System Settings > General > Sharing."
		}
		return problem.New(problem.Unresponsive, "ssh cannot log in to "+name, said, fix)
	}
	why := said
	if err != nil && why == "" {
		why = err.Error()
	}
	if strings.Contains(said, "unexpected argument") {
		return problem.New(problem.BadRequest, "The Headroom on "+name+" has no clusters", said,
			otherVersion)
	}
	return problem.New(problem.Unresponsive, "The cluster has lost "+name, why, "")
}

// end ends the node and with it the ranks of its host. It does not wait.
func (p *peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	if !p.exited {
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	}
	_ = p.stdin.Close()
}

// close ends the node in good order: it ends its ranks first. It waits for a short time.
func (p *peer) close() {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		p.end(errors.New("it was closed"))
		<-p.ended
	}
}

// call sends a request and waits for its last reply. each gets the others; it may be nil. Without
// an error the reply has what the operation promises: see reply.answers.
func (p *peer) call(ctx context.Context, q request, each func(*reply)) (*reply, error) {
	done := make(chan *reply, 1)
	p.mu.Lock()
	if p.err != nil {
		defer p.mu.Unlock()
		return nil, p.err
	}
	p.next++
	q.ID = p.next
	p.waiting[q.ID] = func(r *reply) {
		if r.Done {
			done <- r
		} else if each != nil {
			each(r)
		}
	}
	p.mu.Unlock()
	go func() { _ = p.to.write(q) }() // if it fails, so does the process
	select {
	case r := <-done:
		if r.Error == nil && !r.answers(&q) {
			return nil, problem.New(problem.BadRequest, "The Headroom on "+p.host.String()+
				" speaks another protocol", "its answer to "+q.Op+" is not complete", otherVersion)
		}
		return r, r.Error.problem()
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.waiting, q.ID)
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	case <-p.ended:
		p.mu.Lock()
		defer p.mu.Unlock()
		return nil, p.err
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(text []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(t.text, text...); len(t.text) > most {
		t.text = t.text[len(t.text)-most:]
	}
	return len(text), nil
}

// last returns the last line that is not empty.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimSpace(all[len(all)-1])
}
