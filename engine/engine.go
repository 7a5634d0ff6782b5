package engine

// The engine as its callers see it: checks of a request, the inbox, cancelling and closing.
// Everything that runs the model belongs to the loop's goroutine (loop.go); callers share with it
// only what mu and statsMu guard.

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/prefix"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/sample"
	"headroom/engine/sched"
	"headroom/kernels"
)

// Source is where a model lies: a folder on disk, or an embedded one.
type Source = checkpoint.Source

// Engine is one loaded model. Its methods may be called from any goroutine.
type Engine struct {
	info    Info
	options Options
	device  kernels.Device
	weights *checkpoint.Weights
	*Texts
	pageSizes   prefix.Sizes
	startTokens int // of a sequence that have pages of their own
	recurrent   bool
	books       *books

	mu        sync.Mutex
	inbox     []*request
	live      map[*request]bool // submitted and not ended
	cancelled []*request
	mail      []func() // what other goroutines have the loop do
	closing   bool
	closeBy   time.Time     // after it nothing more is written to the block store
	wake      chan struct{} // capacity 1: the inbox may hold something
	ended     chan struct{} // closed when the loop has returned
	free      sync.Once     // the device and the weights, after that
	freeErr   error

	// Owned by the loop's goroutine.
	runner   *runner.Runner
	sched    *sched.Scheduler
	requests []*request
	blocks   blocks
	endings  []ending
	steps    [2]step
	begun    int       // steps
	ahead    *step     // under way on the device, not ended
	lastEnd  time.Time // of a step
	lastTook time.Duration
	speed    speedometer
	stall    stall
	totals   Stats

	beats     beats         // that it gets on: see Pulse
	restShare atomic.Uint64 // of the time, a float64's bits: see SetWorkShare
	pause     func(time.Duration)

	statsMu   sync.Mutex
	stats     Stats
	published speedometer
}

// Info describes the model and how it runs.
func (e *Engine) Info() Info { return e.info }

// Submit queues a request. Its events arrive on the stream; the request ends by itself or by
// Cancel.
func (e *Engine) Submit(r Request) (*Stream, error) {
	context := e.options.ContextTokens
	switch {
	case len(r.Prompt) == 0:
		return nil, problem.New(problem.BadRequest, "The prompt is empty", "",
			"Send at least one token.")
	case len(r.Prompt) >= context:
		return nil, problem.New(problem.ContextExceeded,
			"The prompt is longer than the model's context",
			fmt.Sprintf(
				"it has %d tokens, the context holds %d and needs room for at least one more",
				len(r.Prompt), context),
			"Shorten the conversation, or load the model with a longer context.")
	}
	for i, t := range r.Prompt {
		if t < 0 || int(t) >= e.runner.VocabSize() {
			return nil, problem.New(problem.BadRequest,
				"The prompt holds a token the model does not have",
				fmt.Sprintf("token %d at position %d, the vocabulary has %d", t, i,
					e.runner.VocabSize()), "")
		}
	}
	if err := r.Sampling.Validate(); err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "A sampling parameter is out of range",
			"")
	}
	if r.ID == "" {
		r.ID = newID()
	}
	if left := context - len(r.Prompt); r.MaxTokens <= 0 || r.MaxTokens > left {
		r.MaxTokens = left
	}
	q := &request{Request: r, submitted: time.Now(), match: e.books.find(r.Prompt),
		usage: Usage{PromptTokens: len(r.Prompt)}}
	q.seq = sched.Sequence{Tokens: append(make([]int32, 0, len(r.Prompt)+min(r.MaxTokens, 4096)), r.Prompt...), Priority: r.Priority, Slot: -1, Owner: q}
	if e.recurrent {
		q.seq.Keep = e.keepAfter(r.Prompt)
	}
	q.sampler = sample.New(r.Sampling, e.runner.VocabSize())
	for _, t := range r.Prompt {
		q.sampler.Observe(t)
	}
	q.text = e.tokenizer.NewStream(true)
	q.title = e.Title(r.Prompt)
	q.stop = chat.NewStopMatcher(r.Stop)
	q.stream, _ = NewStream(r.ID, func() { e.cancel(q) })
	return q.stream, e.enqueue(q)
}

// keepEvery is how many prompt tokens lie between two kept states at most: what is read again after
// a hit that falls between.
const keepEvery = 1024

// keepAfter is the positions of a prompt after which the recurrent state is worth keeping: the end
// of the first message, which many conversations share; the ends of the last two, where the next
// turn and an edited one will part from this; every keepEvery tokens; and before the last token,
// for the same prompt again.
func (e *Engine) keepAfter(prompt []int32) []int {
	var ends []int
	for i, t := range prompt {
		if e.isEnd(t) && i+1 < len(prompt) {
			ends = append(ends, i+1)
		}
	}
	if len(ends) > 3 {
		ends = append(ends[:1], ends[len(ends)-2:]...)
	}
	for at := keepEvery; at < len(prompt); at += keepEvery {
		ends = append(ends, at)
	}
	if len(prompt) > 1 {
		ends = append(ends, len(prompt)-1)
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

func (e *Engine) enqueue(q *request) error {
	e.statsMu.Lock()
	running := e.stats.Running
	e.statsMu.Unlock()
	e.mu.Lock()
	waiting, inbox, closing := len(e.live)-running, slices.Clone(e.inbox), e.closing
	taken := !closing && waiting < e.options.QueueRequests
	if taken {
		e.inbox = append(e.inbox, q)
		e.live[q] = true
		e.signal()
	}
	e.mu.Unlock()
	switch {
	case closing:
		return problem.New(problem.NotRunning, "The model is being unloaded", "", "Start it again.")
	case !taken:
		return e.busy(waiting, inbox)
	}
	return nil
}

func (e *Engine) cancel(q *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closing {
		e.cancelled = append(e.cancelled, q)
		e.signal()
	}
}

// signal wakes the loop. The caller holds mu, so nothing is lost between the loop's look and its
// sleep.
func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Cancel stops the request of that ID. It reports whether there was one.
func (e *Engine) Cancel(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := false
	for q := range e.live {
		if q.ID == id {
			e.cancelled = append(e.cancelled, q)
			found = true
		}
	}
	e.signal()
	return found
}

// Close ends every request, has the block store write what it lacks, then frees the model's memory,
// which it waits for also when called again. The engine must not be used afterwards.
func (e *Engine) Close() error {
	e.mu.Lock()
	if !e.closing {
		e.closing, e.closeBy = true, time.Now().Add(closeTime)
	}
	e.signal()
	e.mu.Unlock()
	<-e.ended
	<-e.books.closed
	e.free.Do(func() {
		e.device.Close()
		e.freeErr = e.weights.Close()
	})
	return e.freeErr
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
