// Package jobs runs long work that a person watches: an import, a download, a move of the cache, a
// training. Each job has a state, an amount, a speed and a time left. It can be stopped and
// resumed.
//
//	Start -> waiting -> running -> done
//	             |         |-----> failed  --Resume--> waiting
//	             '---------'-----> stopped --Resume--> waiting
//
// Jobs of one kind run one after another: two copies from one disk, or two downloads over one
// connection, would only slow each other down. A job's work is a function that resumes from what it
// finds on disk. Discard removes what unfinished work has left behind.
//
// Invariants: no two jobs with the same key are unfinished at the same time. A job ends only after
// its work has returned.
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

// State is the state of a job.
type State string

// The states of a job.
const (
	Waiting State = "waiting" // for an earlier job of its kind
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"  // Job.Err says why
	Stopped State = "stopped" // by a person, or because the program ended
)

// Ended reports whether the job is done, has failed or was stopped.
func (s State) Ended() bool { return s == Done || s == Failed || s == Stopped }

// Kind is the kind of work. Jobs of one kind wait for each other.
type Kind string

// The kinds of jobs.
const (
	Import   Kind = "import"
	Download Kind = "download"
	Cache    Kind = "cache" // moves the prefix cache to another folder
	Training Kind = "training"
)

// Job is a snapshot of a job.
type Job struct {
	ID             string
	Kind           Kind
	Key            string // of the Spec
	Title          string // the model's ID, the folder, or the adapter's name
	State          State
	Phase          string // current step, in a word or two; may be ""
	File           string // current file; "" for none
	DoneBytes      int64
	TotalBytes     int64         // 0: not known
	BytesPerSecond float64       // over the last seconds; 0: not known
	Left           time.Duration // estimated time left; negative: not known
	Result         string        // of a done job: the folder
	Err            error         // of a failed job: a *problem.Problem
	StartedAt      time.Time
}

// Spec describes a job to start.
type Spec struct {
	Kind       Kind
	Key        string // identifies the work; starting unfinished work again returns its job
	Title      string
	TotalBytes int64 // 0: Work reports it
	// Work does the work and returns the resulting folder. It returns soon after ctx ends, with
	// ctx's error.
	Work func(ctx context.Context, p *Progress) (result string, err error)
	// Discard removes what unfinished work has left behind; nil: nothing.
	Discard func() error
	// Memo is the JSON from which the program recreates the Spec after a restart; nil: a restart
	// drops the job.
	Memo json.RawMessage
}

// List holds all jobs. Its methods are safe for concurrent use.
type List struct {
	mu       sync.Mutex
	jobs     []*job // in the order of their start
	next     int
	queues   map[Kind]chan struct{} // semaphores of capacity 1
	watchers map[chan struct{}]bool
	working  sync.WaitGroup
	closed   bool
}

type job struct {
	Job      // without amounts and speed, which progress has
	spec     Spec
	progress *Progress
	cancel   context.CancelFunc
	ended    chan struct{} // closed when this run ends
}

// maxDone is the number of done jobs that stay in the list.
const maxDone = 50

// NewList returns an empty list. The caller must close it.
func NewList() *List {
	return &List{queues: map[Kind]chan struct{}{}, watchers: map[chan struct{}]bool{}}
}

// Start starts a job. If a job with the same key is not done, Start returns that job instead, and
// resumes it if it was stopped or has failed.
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
	j := &job{Job: Job{Kind: s.Kind, Key: s.Key, Title: s.Title}, spec: s}
	l.add(j)
	l.begin(j)
	l.trim()
	return j.now()
}

// add appends the job under a new ID. The caller holds mu.
func (l *List) add(j *job) {
	l.next++
	j.ID = fmt.Sprintf("%s-%d", j.Kind, l.next)
	l.jobs = append(l.jobs, j)
}

// begin starts a run of the job. The caller holds mu.
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

// safely turns a panic in the work into a failure of the job.
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

// trim drops the oldest done jobs. The caller holds mu.
func (l *List) trim() {
	surplus := -maxDone
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

// now returns a snapshot of the job. The caller holds the List's mu.
func (j *job) now() Job {
	v := j.Job
	f := j.progress.figures(time.Now())
	v.Phase, v.File, v.DoneBytes, v.TotalBytes, v.Left = f.phase, f.file, f.done, f.total, -1
	if v.State == Running {
		v.BytesPerSecond, v.Left = f.perSecond, f.left
	}
	return v
}

// Jobs returns all jobs, the oldest first.
func (l *List) Jobs() []Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Job, len(l.jobs))
	for i, j := range l.jobs {
		list[i] = j.now()
	}
	return list
}

// Busy reports whether a job is waiting or running.
func (l *List) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.jobs, func(j *job) bool { return !j.State.Ended() })
}

// find returns the job with that ID. The caller holds mu.
func (l *List) find(id string) (*job, error) {
	for _, j := range l.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, problem.New(problem.NotFound, "There is no job "+id, "it may have been removed",
		"Take one from the list of jobs.")
}

// Stop cancels a job's work and waits until it has returned. Finished work is kept, and Resume
// continues from there. Stop does nothing to a job that has ended.
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

// Resume continues a job that was stopped or has failed. It does nothing to other jobs.
func (l *List) Resume(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, err := l.find(id)
	if err == nil && (j.State == Stopped || j.State == Failed) {
		l.begin(j)
	}
	return err
}

// Remove removes a job from the list. If it is not done, Remove stops it and discards its work.
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
			l.mu.Lock()
			defer l.mu.Unlock()
			return j.now(), ctx.Err()
		}
	}
}

// Subscribe returns a channel that receives a value after a job's state changes, and a function
// that ends the subscription. Several changes may come as one value. Progress sends none.
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

// announce notifies the subscribers. The caller holds mu.
func (l *List) announce() {
	for c := range l.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Close stops all jobs and waits until their work has returned. Jobs started later stop at once.
func (l *List) Close() {
	l.mu.Lock()
	l.closed = true
	for _, j := range l.jobs {
		j.cancel()
	}
	l.mu.Unlock()
	l.working.Wait()
}
