// Package jobs is long work that a person watches: an import, a download, a move of the cache. Each
// job has a state, an amount, a speed and a time left; it can be stopped and goes on where it
// stopped.
//
//	Start -> waiting -> running -> done
//	             |         |-----> failed  --Resume--> waiting
//	             '---------'-----> stopped --Resume--> waiting
//
// Jobs of one kind run one after another: two copies from one disk, or two downloads over one line,
// only make each other late. What a job does is a function; that it can go on is the function's own
// doing, and Discard takes away what it has left behind.
//
// Invariants: two jobs of one key are never unfinished at the same time; a job's work has returned
// before its state says so.
package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"headroom/engine/problem"
)

// State is where a job stands.
type State string

// The states.
const (
	Waiting State = "waiting" // for a job of its kind before it
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"  // Job.Err says why
	Stopped State = "stopped" // by a person, or by the end of the program
)

// Ended tells whether nothing more happens by itself.
func (s State) Ended() bool { return s == Done || s == Failed || s == Stopped }

// Kind tells what sort of work it is; jobs of one kind wait for each other.
type Kind string

// The kinds.
const (
	Import   Kind = "import"
	Download Kind = "download"
	Cache    Kind = "cache" // the cache on disk goes to another folder
)

// Job is one as it is at the moment.
type Job struct {
	ID             string
	Kind           Kind
	Title          string // of what: a model's ID, a folder
	State          State
	Phase          string // what it does now, in a word or two; "" for nothing special
	File           string // with which file; "" for none
	DoneBytes      int64
	TotalBytes     int64         // 0: not known
	BytesPerSecond float64       // over the last seconds; 0: not known
	Left           time.Duration // at that speed; below 0: not known
	Result         string        // of a job that is done: the folder
	Err            error         // of one that failed, a *problem.Problem
	StartedAt      time.Time
}

// Spec says what is to be done.
type Spec struct {
	Kind       Kind
	Key        string // of the work: starting what is unfinished already returns that job
	Title      string
	TotalBytes int64 // 0: the work will say
	// Work does it and returns the folder that came of it. It ends soon after ctx does, with ctx's
	// error.
	Work func(ctx context.Context, p *Progress) (result string, err error)
	// Discard takes away what unfinished work has left; nil: it leaves nothing.
	Discard func() error
	// Memo is what the program that made the Spec needs to make it again after a restart, as JSON;
	// nil: the job is forgotten then.
	Memo json.RawMessage
}

// List is all jobs. Its methods may be called from any goroutine.
type List struct {
	mu       sync.Mutex
	jobs     []*job // in the order of their start
	next     int
	queues   map[Kind]chan struct{} // capacity 1: who holds the token works
	watchers map[chan struct{}]bool
	working  sync.WaitGroup
	closed   bool
}

type job struct {
	Job      // without the figures, which are progress's
	spec     Spec
	progress *Progress
	cancel   context.CancelFunc
	ended    chan struct{} // closed when this run has ended
}

// mostEnded is how many jobs that are done are remembered.
const mostEnded = 50

// NewList makes an empty list. Close ends it.
func NewList() *List {
	return &List{queues: map[Kind]chan struct{}{}, watchers: map[chan struct{}]bool{}}
}

// Start begins a job, or returns the one of the same key that is not done: as it is if it waits or
// runs, else it goes on.
func (l *List) Start(s Spec) Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.Kind == s.Kind && j.spec.Key == s.Key && j.State != Done {
			if j.State.Ended() {
				j.spec = s
				l.begin(j)
			}
			return j.now()
		}
	}
	j := &job{Job: Job{Kind: s.Kind, Title: s.Title}, spec: s}
	l.add(j)
	l.begin(j)
	l.trim()
	return j.now()
}

// add lists the job under an ID of its own. The caller holds mu.
func (l *List) add(j *job) {
	l.next++
	j.ID = fmt.Sprintf("%s-%d", j.Kind, l.next)
	l.jobs = append(l.jobs, j)
}

// begin runs the job. The caller holds mu.
func (l *List) begin(j *job) {
	ctx, cancel := context.WithCancel(context.Background())
	if l.closed {
		cancel()
	}
	j.State, j.Err, j.Result, j.StartedAt = Waiting, nil, "", time.Now()
	j.cancel, j.progress, j.ended = cancel, newProgress(j.spec.TotalBytes), make(chan struct{})
	queue := l.queues[j.Kind]
	if queue == nil {
		queue = make(chan struct{}, 1)
		l.queues[j.Kind] = queue
	}
	l.announce()
	l.working.Add(1)
	go func(ended chan struct{}) {
		defer l.working.Done()
		defer close(ended)
		defer cancel()
		var result string
		var err error
		select {
		case queue <- struct{}{}:
			l.set(j, Running, "", nil)
			result, err = safely(ctx, j.spec.Work, j.progress)
			<-queue
		case <-ctx.Done():
			err = ctx.Err()
		}
		switch {
		case err == nil:
			l.set(j, Done, result, nil)
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			l.set(j, Stopped, "", nil)
		default:
			l.set(j, Failed, "", problem.From(err))
		}
	}(j.ended)
}

// safely makes a panic in the work that job's failure.
func safely(ctx context.Context, work func(context.Context, *Progress) (string, error),
	p *Progress) (result string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = problem.New(problem.Internal, "Something went wrong inside Headroom",
				fmt.Sprint(r), "Please report it.")
		}
	}()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return work(ctx, p)
}

func (l *List) set(j *job, s State, result string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.State, j.Result = s, result
	if j.Err = err; s.Ended() {
		j.progress.Phase("", "")
	}
	l.announce()
}

// trim forgets the oldest jobs that are done. The caller holds mu.
func (l *List) trim() {
	surplus := -mostEnded
	for _, j := range l.jobs {
		if j.State == Done {
			surplus++
		}
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(j *job) bool {
		if j.State == Done && surplus > 0 {
			surplus--
			return true
		}
		return false
	})
}

// now is the job with its figures. The caller holds the List's mu.
func (j *job) now() Job {
	v := j.Job
	f := j.progress.figures(time.Now())
	v.Phase, v.File, v.DoneBytes, v.TotalBytes, v.Left = f.phase, f.file, f.done, f.total, -1
	if v.State == Running {
		v.BytesPerSecond, v.Left = f.perSecond, f.left
	}
	return v
}

// Jobs lists all, oldest first.
func (l *List) Jobs() []Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Job, len(l.jobs))
	for i, j := range l.jobs {
		list[i] = j.now()
	}
	return list
}

// Busy tells whether something waits or runs.
func (l *List) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.jobs, func(j *job) bool { return !j.State.Ended() })
}

// find returns the job of that ID. The caller holds mu.
func (l *List) find(id string) (*job, error) {
	for _, j := range l.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, problem.New(problem.NotFound, "There is no job "+id, "it may have been removed",
		"Take one from the list of jobs.")
}

// Stop ends a job's work and returns when it has ended. What it has done so far stays, and Resume
// goes on from there. One that has ended already is left as it is.
func (l *List) Stop(id string) error {
	l.mu.Lock()
	j, err := l.find(id)
	if err != nil {
		l.mu.Unlock()
		return err
	}
	cancel, ended := j.cancel, j.ended
	l.mu.Unlock()
	cancel()
	<-ended
	return nil
}

// Resume goes on with a job that has stopped or failed; any other is left as it is.
func (l *List) Resume(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, err := l.find(id)
	if err == nil && (j.State == Stopped || j.State == Failed) {
		l.begin(j)
	}
	return err
}

// Remove forgets a job: one that is not done is stopped, and what it has left behind is taken away.
func (l *List) Remove(id string) error {
	if err := l.Stop(id); err != nil {
		return err
	}
	l.mu.Lock()
	j, err := l.find(id)
	if err == nil {
		l.jobs = slices.DeleteFunc(l.jobs, func(other *job) bool { return other == j })
		l.announce()
	}
	l.mu.Unlock()
	if err != nil || j.State == Done || j.spec.Discard == nil {
		return err
	}
	return j.spec.Discard()
}

// Wait returns the job when it has ended, or as it is when ctx ends, with ctx's error.
func (l *List) Wait(ctx context.Context, id string) (Job, error) {
	for {
		l.mu.Lock()
		j, err := l.find(id)
		if err != nil {
			l.mu.Unlock()
			return Job{}, err
		}
		now, ended := j.now(), j.ended
		l.mu.Unlock()
		if now.State.Ended() {
			return now, nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// Subscribe returns a channel that gets a value after changes of a job's state (several may come as
// one; figures change without), and a function that ends the subscription.
func (l *List) Subscribe() (changed <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers[c] = true
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, c)
	}
}

// announce tells the watchers. The caller holds mu.
func (l *List) announce() {
	for c := range l.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Close stops all jobs and returns when their work has ended. Jobs that are started later stop at
// once.
func (l *List) Close() {
	l.mu.Lock()
	l.closed = true
	for _, j := range l.jobs {
		j.cancel()
	}
	l.mu.Unlock()
	l.working.Wait()
}
