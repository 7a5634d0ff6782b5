package cluster

// The node: what runs on each host, as `headroom cluster node`. It reads requests on stdin and
// writes replies on stdout, which ssh carries. It ends, and all ranks of the host with it, when
// stdin ends or nothing was received for some time: the cluster sends a ping every two seconds.
// The stdin of a rank ends with the node, however that ends.

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"headroom/app/disk"
	"headroom/app/memory"
	"headroom/app/train"
	"headroom/app/version"
	"headroom/engine/problem"
)

//go:embed rank.py
var rankProgram string

// eventMark begins a line with an event of rank.py.
const eventMark = "@headroom "

// NodeSilence is the time without a message after which a node ends.
const NodeSilence = 15 * time.Second

// dialTime bounds a connection of a link check.
const dialTime = 2 * time.Second

// Node is the host's side of a cluster. Its fields do not change while it serves.
type Node struct {
	Environment train.Environment
	// Model returns folder and ID of a model by the name of a request. The error is a Problem.
	Model func(name string) (dir, id string, err error)
	// Awake keeps the machine awake while a rank runs; nil: nothing does.
	Awake func() (end func())
	// Silence is the time without a message after which the node ends. 0: NodeSilence.
	Silence time.Duration

	python []string // tests set it: no environment is needed then

	out       *lines
	listeners []net.Listener // used by one goroutine

	mu     sync.Mutex
	ranks  map[*exec.Cmd]chan struct{} // those not waited for; closed when it has ended
	unlock func()                      // of the environment
}

// Serve serves one cluster until in ends, nothing comes any more, or ctx ends.
func (n *Node) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.out, n.ranks = &lines{out: out}, map[*exec.Cmd]chan struct{}{}
	silence := n.Silence
	if silence == 0 {
		silence = NodeSilence
	}
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	requests := make(chan *request)
	go func() {
		defer cancel()
		_ = readLines(in, func(q *request) {
			quiet.Reset(silence)
			select {
			case requests <- q:
			case <-ctx.Done():
			}
		})
	}()
	defer n.end()
	for {
		select {
		case q := <-requests:
			n.handle(ctx, q)
		case <-ctx.Done():
			return nil
		}
	}
}

// end ends all ranks and waits for them.
func (n *Node) end() {
	n.kill()
	n.closeListeners()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unlock != nil {
		n.unlock()
		n.unlock = nil
	}
}

// handle does what is short, and starts what is not.
func (n *Node) handle(ctx context.Context, q *request) {
	switch q.Op {
	case opListen:
		ports, err := n.listen(q.Addresses)
		n.reply(q, reply{Ports: ports}, err)
	case opClose:
		n.closeListeners()
		n.reply(q, reply{}, nil)
	case opPing:
		n.reply(q, reply{}, nil)
	default:
		go n.work(ctx, q)
	}
}

func (n *Node) work(ctx context.Context, q *request) {
	var r reply
	var err error
	switch q.Op {
	case opFacts:
		r.Facts = n.facts(ctx)
	case opModel:
		r.Found, err = n.find(q.Model)
	case opDial:
		r.Ms = dialAll(ctx, q.Addresses)
	case opInstall:
		err = n.install(ctx, q)
	case opProbe:
		r.Parts, err = n.probe(ctx, q)
	case opRank:
		if q.Rank == nil || len(q.Rank.Args) == 0 {
			err = problem.New(problem.BadRequest, "The request names no rank", "", otherVersion)
			break
		}
		if n.Awake != nil {
			defer n.Awake()()
		}
		err = n.run(ctx, q, q.Rank, func(*Event) {})
	case opKill:
		n.kill()
	default:
		err = problem.New(problem.BadRequest, "The node does not know "+q.Op, "", otherVersion)
	}
	n.reply(q, r, err)
}

const otherVersion = "Install the same version of Headroom on all machines."

func (n *Node) reply(q *request, r reply, err error) {
	r.ID, r.Done, r.Error = q.ID, true, failureOf(err)
	_ = n.out.write(r)
}

// Facts is what a node says about its host.
type Facts struct {
	Protocol  int      `json:"protocol"`
	Version   string   `json:"version"`
	System    string   `json:"system"` // as runtime.GOOS/GOARCH
	Total     int64    `json:"totalBytes"`
	Available int64    `json:"availableBytes"`
	Addresses []string `json:"addresses"` // IPv4, without loopback
	// Packages names the Python environment, and Installed says that it is there.
	Packages  string `json:"packages"`
	Installed bool   `json:"installed"`
	Tools     string `json:"tools,omitempty"` // what would install it
	Missing   string `json:"missing,omitempty"`
	RDMA      RDMA   `json:"rdma"`
}

func (n *Node) facts(ctx context.Context) *Facts {
	f := &Facts{Protocol: protocol, Version: version.Version, System: system(),
		Packages: n.Environment.Name(), Installed: n.python != nil || n.Environment.Ready(),
		Addresses: addresses(), RDMA: readRDMA(ctx)}
	if reading, err := new(memory.Meter).Read(); err == nil {
		f.Total = reading.TotalBytes
		f.Available = reading.HeadroomBytes(memory.EngineBytes{}, memory.EngineBytes{})
	}
	if !f.Installed {
		tools, err := n.Environment.Tools(ctx)
		if f.Tools = tools; err != nil {
			f.Missing = err.Error()
		}
	}
	return f
}

func addresses() []string {
	var found []string
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			found = append(found, ip.IP.String())
		}
	}
	return found
}

func (n *Node) find(name string) (*Found, error) {
	dir, id, err := n.Model(name)
	if err != nil {
		return nil, err
	}
	sum, err := digest(dir)
	if err != nil {
		return nil, problem.Wrap(problem.ModelBroken, err, "The model cannot be read", "")
	}
	return &Found{ID: id, Dir: dir, Digest: sum}, nil
}

// install makes the environment. Its progress goes to the cluster as lines.
func (n *Node) install(ctx context.Context, q *request) error {
	unlock, err := n.Environment.Lock()
	if err != nil || n.Environment.Ready() {
		if err == nil {
			unlock()
		}
		return err
	}
	defer unlock()
	return n.Environment.Install(ctx, lineWriter(func(text string) {
		_ = n.out.write(reply{ID: q.ID, Line: text})
	}))
}

// lineWriter calls a function with each line that is written. A write ends a line.
type lineWriter func(string)

func (w lineWriter) Write(text []byte) (int, error) {
	for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		w(line)
	}
	return len(text), nil
}

func (n *Node) listen(on []string) (ports []int, err error) {
	for _, ip := range on {
		l, err := net.Listen("tcp4", net.JoinHostPort(ip, "0"))
		if err != nil {
			n.closeListeners()
			return nil, problem.Wrap(problem.BadRequest, err, "The host cannot listen on "+ip,
				"Use an address of that host.")
		}
		n.listeners = append(n.listeners, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
	}
	return ports, nil
}

func (n *Node) closeListeners() {
	for _, l := range n.listeners {
		_ = l.Close()
	}
	n.listeners = nil
}

// dialAll returns the milliseconds that connections took; -1: an address was not reached.
func dialAll(ctx context.Context, all []string) []float64 {
	ms := make([]float64, len(all))
	var wait sync.WaitGroup
	for i, address := range all {
		wait.Go(func() {
			begin := time.Now()
			c, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp4", address)
			if ms[i] = -1; err == nil {
				ms[i] = float64(time.Since(begin).Microseconds()) / 1000
				_ = c.Close()
			}
		})
	}
	wait.Wait()
	return ms
}

// probe asks mlx-lm how a model can be split.
func (n *Node) probe(ctx context.Context, q *request) (parts *Parts, err error) {
	err = n.run(ctx, q, &rank{Args: []string{"probe", q.Dir}}, func(e *Event) {
		if e.Kind == "probed" {
			parts = &e.Parts
		}
	})
	if err == nil && parts == nil {
		err = problem.New(problem.Internal, "mlx-lm did not say how the model can be split", "", "")
	}
	return parts, err
}

// command returns the command of the interpreter. It keeps the environment from being removed.
func (n *Node) command() ([]string, error) {
	if n.python != nil {
		return n.python, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unlock == nil {
		unlock, err := n.Environment.Use()
		if err != nil {
			return nil, err
		}
		n.unlock = unlock
	}
	return n.Environment.Command(), nil
}

// folder makes the folder for temporary files of a rank. It keeps the kernels that mlx compiles on
// Linux for the next start. Ranks do not share one: mlx would load a file that another rank has
// only begun to write.
func (n *Node) folder(r *rank) (string, error) {
	if n.python != nil {
		return os.MkdirTemp("", "rank")
	}
	temp, err := n.Environment.Temp()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(temp, fmt.Sprintf("rank%d", r.Rank))
	return dir, os.MkdirAll(dir, 0o700)
}

// run runs rank.py until it ends. Its output goes to the cluster; each gets its events too. The
// error is a Problem that says how it ended, unless it ended well.
func (n *Node) run(ctx context.Context, q *request, r *rank, each func(*Event)) error {
	python, err := n.command()
	if err != nil {
		return err
	}
	temp, err := n.folder(r)
	if err != nil {
		return startProblem(err)
	}
	env := append(os.Environ(), "TMPDIR="+temp, "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1",
		"HF_HUB_DISABLE_TELEMETRY=1")
	for name, value := range r.Env {
		env = append(env, name+"="+value)
	}
	for name, content := range r.Files {
		path := filepath.Join(temp, name+".json")
		if err := disk.WriteFile(path, []byte(content), 0o600); err != nil {
			return startProblem(err)
		}
		env = append(env, name+"="+path)
	}
	args := append(python[1:len(python):len(python)], "-c", rankProgram)
	c := exec.Command(python[0], append(args, r.Args...)...)
	c.Env = env
	c.Dir = temp
	// A process group of its own, so that its children end with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := c.StdinPipe() // its end tells the rank that the node has ended
	if err != nil {
		return startProblem(err)
	}
	defer stdin.Close()
	return n.started(ctx, c, &output{node: n, id: q.ID, each: each})
}

func startProblem(err error) error {
	return problem.Wrap(problem.LowResources, err, "The rank could not be started", "")
}

// started starts a command, and waits until it has ended.
func (n *Node) started(ctx context.Context, c *exec.Cmd, o *output) error {
	out, in, err := os.Pipe()
	if err != nil {
		return startProblem(err)
	}
	defer out.Close()
	c.Stdout, c.Stderr = in, in
	n.mu.Lock()
	if err = ctx.Err(); err == nil { // the node has not ended meanwhile
		err = c.Start()
	}
	ended := make(chan struct{})
	if err == nil {
		n.ranks[c] = ended
	}
	n.mu.Unlock()
	_ = in.Close()
	if err != nil {
		return startProblem(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		o.read(out)
	}()
	waitExit(c.Process.Pid)
	// Both at once: after Wait the number of the group may be another's, and kill would use it.
	n.mu.Lock()
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // its children
	err = c.Wait()
	delete(n.ranks, c)
	close(ended)
	n.mu.Unlock()
	<-read
	return o.outcome(err)
}

// kill ends all ranks at once, and waits until they have ended. They hold nothing worth saving.
func (n *Node) kill() {
	n.mu.Lock()
	all := make([]chan struct{}, 0, len(n.ranks))
	for c, ended := range n.ranks {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		all = append(all, ended)
	}
	n.mu.Unlock()
	for _, ended := range all {
		<-ended
	}
}

// output is what a rank prints.
type output struct {
	node   *Node
	id     int
	each   func(*Event)
	failed atomic.Pointer[Event]
	done   bool
	last   string
}

func (o *output) read(from io.Reader) {
	readText(from, func(line string) {
		text, ok := strings.CutPrefix(line, eventMark)
		if !ok {
			if strings.TrimSpace(line) != "" {
				o.last = line
			}
			_ = o.node.out.write(reply{ID: o.id, Line: line})
			return
		}
		e := new(Event)
		if json.Unmarshal([]byte(text), e) != nil {
			return
		}
		switch e.Kind {
		case "failed":
			o.failed.Store(e)
		case "finished", "probed":
			o.done = true
		}
		o.each(e)
		_ = o.node.out.write(reply{ID: o.id, Event: e})
	})
}

// outcome returns why a process has ended.
func (o *output) outcome(err error) error {
	switch failed := o.failed.Load(); {
	case failed != nil:
		return problem.New(problem.Crashed, "The rank ended", failed.Error, "")
	case err == nil || o.done:
		return nil
	case o.last != "" && !strings.HasPrefix(err.Error(), "signal:"):
		return problem.New(problem.Crashed, "The rank ended", err.Error()+": "+o.last, "")
	}
	return problem.New(problem.Crashed, "The rank ended", err.Error(), "")
}
