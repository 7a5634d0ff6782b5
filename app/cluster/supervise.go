package cluster

// All ranks of a cluster, as one thing that runs, ends and starts again.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/engine/problem"
)

// The states of a cluster.
const (
	Starting   = "starting"
	Ready      = "ready"
	Restarting = "restarting" // a rank has ended; the next ones start soon
	Stopped    = "stopped"    // it has ended, or failed too often
)

// Status is the state of a cluster.
type Status struct {
	State    string    `json:"state"`
	Since    time.Time `json:"since"`
	Model    string    `json:"model"`
	Backend  string    `json:"backend"`
	Mode     string    `json:"mode"`
	Hosts    []string  `json:"hosts"`  // by rank
	Memory   []int64   `json:"memory"` // bytes of weights by rank, as MLX reports; 0: not loaded
	PIDs     []int     `json:"pids"`   // process IDs on their hosts, by rank; 0: not started
	Shares   []Share   `json:"shares"`
	Starts   int       `json:"starts"`          // how often all ranks have started
	Error    string    `json:"error,omitempty"` // why the last ranks have ended
	Requests int       `json:"requests"`        // that are answered now
}

// limits bound the times of a cluster. Tests have shorter ones.
type limits struct {
	start  time.Duration // until it answers
	beat   time.Duration // without an event of a rank
	stall  time.Duration // without progress of a rank
	link   time.Duration // between two tries of a link
	steady time.Duration // a run that was ready for so long counts as good
	pause  time.Duration // before the second start in a row; it doubles
	most   time.Duration // of the pauses
	fails  int           // starts in a row that were not steady
}

var usualLimits = limits{start: 15 * time.Minute, beat: 30 * time.Second, stall: 5 * time.Minute,
	link: 3 * time.Second, steady: time.Minute, pause: time.Second, most: 30 * time.Second,
	fails: 8}

// Cluster is a cluster that runs. Its methods are safe for concurrent use.
type Cluster struct {
	options Options
	plan    *Plan
	limits  limits
	watch   func(Status)

	mu     sync.Mutex
	status Status
	run    *run // nil: none is ready
}

// run is one life of all ranks.
type run struct {
	peers *peers
	ctx   context.Context // ends with the first rank; its cause is a Problem
	end   context.CancelCauseFunc
	http  *http.Client // of rank 0
	url   string       // of rank 0

	mu     sync.Mutex
	loaded int
	heard  []time.Time // by rank; zero: nothing yet
	all    chan struct{}
	ranks  sync.WaitGroup
}

// New plans a cluster, and connects to its hosts. watch is called with every change of the state;
// it may be nil. Run runs the cluster. The error is a Problem, or ctx's.
func New(ctx context.Context, o Options, watch func(Status)) (*Cluster, *Plan, error) {
	p, plan, err := o.prepare(ctx)
	if p != nil {
		p.close() // each start connects anew: it proves that it can
	}
	if err != nil {
		return nil, plan, err
	}
	if watch == nil {
		watch = func(Status) {}
	}
	return &Cluster{options: o, plan: plan, limits: usualLimits, watch: watch, status: Status{
		State: Starting, Since: time.Now(), Model: plan.Model, Backend: plan.Backend,
		Mode: plan.Mode, Hosts: plan.Hosts, Shares: plan.Shares,
		Memory: make([]int64, len(plan.Hosts)), PIDs: make([]int, len(plan.Hosts))}}, plan, nil
}

// Status returns the state.
func (c *Cluster) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Cluster) change(edit func(*Status)) {
	c.mu.Lock()
	before := c.status.State
	edit(&c.status)
	if c.status.State != before {
		c.status.Since = time.Now()
	}
	now := c.status
	c.mu.Unlock()
	if now.State != before {
		c.watch(now)
	}
}

// Run runs the cluster until ctx ends, and starts it again when a rank has ended. All ranks on all
// hosts have ended when it returns. The error is a Problem: it failed too often. After the end of
// ctx it is nil.
func (c *Cluster) Run(ctx context.Context) error {
	defer c.change(func(s *Status) { s.State = Stopped })
	pause := time.Duration(0)
	for failed := 0; ; {
		ready, err := c.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if failed++; ready >= c.limits.steady {
			failed, pause = 0, 0
		}
		if failed >= c.limits.fails {
			said := *problem.From(err)
			said.Message = fmt.Sprintf("The cluster failed %d times in a row: %s", failed,
				said.Message)
			return &said
		}
		c.change(func(s *Status) { s.State, s.Error = Restarting, err.Error() })
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(max(2*pause, c.limits.pause), c.limits.most)
	}
}

// once starts all ranks and waits until one has ended. It returns how long they were ready, and a
// Problem that says what has ended. All have ended then.
func (c *Cluster) once(ctx context.Context) (ready time.Duration, err error) {
	c.change(func(s *Status) {
		s.Starts++
		s.Memory, s.PIDs = make([]int64, len(s.Hosts)), make([]int, len(s.Hosts))
	})
	start, cancel := context.WithTimeout(ctx, c.limits.start)
	defer cancel()
	p, err := connectAll(start, c.options.Shell, c.options.Hosts)
	if err != nil {
		return 0, err
	}
	defer p.close() // it ends the ranks, too
	r, err := c.launch(ctx, start, p)
	if err != nil {
		return 0, err
	}
	defer func() {
		c.mu.Lock()
		c.run = nil
		c.mu.Unlock()
		r.stop()
	}()
	if err := c.await(start, r); err != nil {
		return 0, err
	}
	begin := time.Now()
	c.mu.Lock()
	c.run = r
	c.mu.Unlock()
	c.change(func(s *Status) { s.State = Ready })
	<-r.ctx.Done()
	return time.Since(begin), context.Cause(r.ctx)
}

// launch starts all ranks.
func (c *Cluster) launch(ctx, start context.Context, p *peers) (*run, error) {
	ports, err := p.ports(start, c.plan.IPs)
	if err != nil {
		return nil, err
	}
	port, err := p.freePort(start, 0)
	if err != nil {
		return nil, err
	}
	links, err := p.listenLinks(start, c.plan.IPs)
	if err != nil {
		return nil, err
	}
	n := len(p.hosts)
	r := &run{peers: p, heard: make([]time.Time, n),
		all: make(chan struct{}), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	r.ctx, r.end = context.WithCancelCause(ctx)
	r.http = c.options.Shell.client(p.hosts[0], port)
	for rank := range n {
		w := world(c.plan.Backend, p.hosts, c.plan.IPs, ports, rank)
		for _, e := range c.options.Envs {
			name, value, _ := strings.Cut(e, "=")
			w.Env[name] = value
		}
		w.Args = c.args(rank, port)
		r.ranks.Go(func() { r.watchRank(c, rank, w) })
	}
	go r.watchBeats(c.limits)
	go func() {
		if err := links.watch(r.ctx, c.limits.link); err != nil {
			r.end(err)
		}
	}()
	return r, nil
}

// args returns the arguments of rank.py.
func (c *Cluster) args(rank, port int) []string {
	args := []string{"server", c.plan.Model, "--model", c.plan.dirs[rank], "--host", "127.0.0.1",
		"--port", fmt.Sprint(port), "--log-level", "WARNING",
		// No web page may use the port of rank 0: only the proxy, which checks its requests.
		"--allowed-origins", "http://127.0.0.1:0",
		"--max-tokens", fmt.Sprint(maxTokens)}
	if c.plan.Mode == Pipeline {
		args = append(args, "--pipeline")
	}
	return args
}

// maxTokens is the most tokens of an answer whose request names no number. mlx-lm's 512 would cut
// many.
const maxTokens = 8192

// watchRank runs a rank until it ends, and ends the run with it.
func (r *run) watchRank(c *Cluster, n int, w rank) {
	host := r.peers.hosts[n]
	_, err := r.peers.nodes[n].call(r.ctx, request{Op: opRank, Rank: &w}, func(answer *reply) {
		if answer.Line != "" {
			c.options.log("rank %d: %s", n, answer.Line)
		}
		if answer.Event == nil {
			return
		}
		r.note(n, answer.Event, c.limits)
		c.change(func(s *Status) {
			switch answer.Event.Kind { // Status has returned the old slices
			case "joined":
				s.PIDs = slices.Clone(s.PIDs)
				s.PIDs[n] = answer.Event.PID
			case "loaded":
				s.Memory = slices.Clone(s.Memory)
				s.Memory[n] = answer.Event.Memory
			}
		})
	})
	if r.ctx.Err() != nil {
		return
	}
	if err == nil {
		err = problem.New(problem.Crashed, "", "it ended by itself", "")
	}
	p := problem.From(err)
	why := p.Why
	if p.Code != problem.Crashed && p.Why != "" { // as "The cluster has lost mac2: …"
		why = p.Message + ": " + p.Why
	} else if p.Why == "" {
		why = p.Message
	}
	r.end(problem.New(problem.Crashed,
		fmt.Sprintf("Rank %d of the cluster on %s has ended", n, host), why, p.Fix))
}

// note notes an event of a rank.
func (r *run) note(rank int, e *Event, l limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard[rank] = time.Now()
	switch {
	case e.Kind == "loaded":
		if r.loaded++; r.loaded == len(r.heard) {
			close(r.all)
		}
	case e.Kind == "beat" && r.loaded == len(r.heard) && e.Idle > l.stall.Seconds():
		r.end(problem.New(problem.Unresponsive, fmt.Sprintf("Rank %d of the cluster hangs", rank),
			fmt.Sprintf("it has made no progress for %.0f s", e.Idle), ""))
	}
}

// watchBeats ends the run if a rank that has loaded is not heard any more.
func (r *run) watchBeats(l limits) {
	tick := time.NewTicker(l.beat / 4)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		for rank, at := range r.heard {
			if r.loaded == len(r.heard) && time.Since(at) > l.beat {
				r.end(problem.New(problem.Unresponsive,
					fmt.Sprintf("Rank %d of the cluster on %s does not answer", rank,
						r.peers.hosts[rank]),
					fmt.Sprintf("nothing was heard for %.0f s", time.Since(at).Seconds()), ""))
			}
		}
		r.mu.Unlock()
	}
}

// await waits until all ranks have loaded the model, and an answer of one token went through all.
func (c *Cluster) await(ctx context.Context, r *run) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	select {
	case <-r.all:
	case <-ctx.Done():
		return startError(ctx)
	}
	for {
		err := r.answers(ctx, c.plan.Model)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done(): // the error is that of the end
			return startError(ctx)
		case <-time.After(100 * time.Millisecond): // rank 0 does not listen yet
			c.options.log("rank 0 does not answer yet: %v", err)
		}
	}
}

func startError(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return problem.New(problem.Timeout, "The cluster did not start in time",
			"the ranks did not load the model, or did not reach one another", "")
	}
	return err
}

// answers asks for one token.
func (r *run) answers(ctx context.Context, model string) error {
	body := fmt.Sprintf(`{"model": %q, "prompt": "1", "max_tokens": 1, "temperature": 0}`, model)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/completions",
		strings.NewReader(body))
	if err != nil {
		return err
	}
	a, err := r.http.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("rank 0 answered %s", a.Status)
	}
	return nil
}

// stop ends all ranks and waits until they have ended, but not for hosts that are lost.
func (r *run) stop() {
	r.end(problem.New(problem.Crashed, "The cluster was stopped", "", ""))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.peers.each(func(rank int) error {
		_, err := r.peers.nodes[rank].call(ctx, request{Op: opKill}, nil)
		return err
	})
	r.ranks.Wait()
}
