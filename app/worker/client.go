package worker

// The loaded model on the parent's side. One goroutine, listen, reads the worker's messages. Stats
// and Recent, which the app calls several times a second, return what the worker sent last. So a
// worker that hangs blocks only its requests.

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"headroom/engine"
	"headroom/engine/chat"
	"headroom/engine/problem"
	"headroom/engine/sample"
	"headroom/engine/tokenizer"
)

// Model is a model in a worker process. Its methods may be called from any goroutine. Close ends
// the process.
type Model struct {
	process  *process
	options  engine.Options // Progress and History
	log      *slog.Logger
	suspects *Suspects     // nil: none
	name     string        // of the model, for suspects
	opened   chan struct{} // closed when opening is set
	opening  opened
	texts    *engine.TextProcessor // nil until loaded
	died     chan struct{}         // closed when the process and all of its requests have ended

	mu       sync.Mutex
	ended    bool // the process has ended
	closing  bool
	last     uint64 // the last number given to a stream or call
	streams  map[streamNumber]*stream
	calls    map[callNumber]chan *fromWorker // capacity 1: the answer, nil if the process ends
	stats    engine.Stats
	recent   []engine.Finished // newest first
	health   health
	prefixes []engine.CachedPrefix // the last answer; see CachedPrefixesWithin
	failure  error                 // the worker's error of closing
}

// newModel returns the model of a process. Its messages are read once listen is called.
func newModel(p *process, o engine.Options) *Model {
	return &Model{process: p, options: o, log: p.log, opened: make(chan struct{}),
		died:    make(chan struct{}),
		streams: map[streamNumber]*stream{}, calls: map[callNumber]chan *fromWorker{}}
}

func (m *Model) send(message *toWorker) { m.process.outbox.send(message) }

// listen reads the worker's messages until it ends.
func (m *Model) listen() {
	m.process.listen(m.handle)
	m.endAll()
}

// handle handles one message. An error means that the worker broke the protocol.
func (m *Model) handle(message *fromWorker) error {
	switch {
	case message.Progress != nil:
		if m.options.Progress != nil {
			m.options.Progress(float64(*message.Progress))
		}
	case message.Opened != nil:
		select {
		case <-m.opened:
			return errors.New("it reported twice that its model is loaded")
		default:
		}
		m.opening, m.stats = *message.Opened, message.Opened.Stats
		close(m.opened)
	case message.Learned != nil:
		if m.options.History != nil {
			m.options.History.Add(*message.Learned)
		}
	case message.Accepted != nil:
		m.accept(message.Accepted)
	case message.Event != nil:
		m.event(message.Event)
	case message.Finished != nil:
		m.mu.Lock()
		m.recent = slices.Insert(m.recent, 0, *message.Finished)
		m.recent = m.recent[:min(len(m.recent), maxRecent)]
		m.mu.Unlock()
	case message.Stats != nil:
		m.mu.Lock()
		m.stats = *message.Stats
		m.mu.Unlock()
	case message.Prefixes != nil:
		m.answer(message.Prefixes.Call, message)
	case message.Held != nil:
		m.answer(message.Held.Call, message)
	case message.Forgotten != nil:
		m.answer(message.Forgotten.Call, message)
	case message.Heartbeat != nil:
		m.heartbeat(message.Heartbeat)
	case message.Closed != nil:
		m.mu.Lock()
		m.failure = message.Closed.Problem.err()
		m.mu.Unlock()
	}
	return nil
}

// answer delivers the answer of a call.
func (m *Model) answer(call callNumber, message *fromWorker) {
	m.mu.Lock()
	answer := m.calls[call]
	delete(m.calls, call)
	m.mu.Unlock()
	if answer != nil {
		answer <- message
	}
}

// call sends the message that ask returns and waits for its answer, no longer than patience; 0: as
// long as it takes. It returns nil if there is none, because the process has ended or needs longer.
func (m *Model) call(patience time.Duration, ask func(callNumber) *toWorker) *fromWorker {
	answer := make(chan *fromWorker, 1)
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		return nil
	}
	m.last++
	number := callNumber(m.last)
	m.calls[number] = answer
	m.mu.Unlock()
	m.send(ask(number))
	if patience == 0 {
		return <-answer
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case got := <-answer:
		return got
	case <-late.C:
		m.mu.Lock()
		delete(m.calls, number) // an answer may have come just now: answer has room for it
		m.mu.Unlock()
		return nil
	}
}

// maxRecent is the number of finished requests that Recent returns, as in engine.Engine.
const maxRecent = 64

// endAll ends the requests and calls of a process that has ended.
func (m *Model) endAll() {
	m.mu.Lock()
	m.ended = true
	end := m.process.ending()
	running := m.running()
	closing, streams, calls, refusal := m.closing, m.streams, m.calls, m.refusal()
	m.streams, m.calls = nil, nil
	m.stats.Running, m.stats.Waiting, m.stats.Requests = 0, 0, nil
	m.mu.Unlock()
	if !closing {
		m.log.Error("a model's process ended", "pid", m.process.pid,
			"why", m.process.exitReason(), "stderr", m.process.stderr.String())
	}
	if !closing {
		m.suspects.crashed(running, end)
	}
	cause := m.crashed("during the request")
	for _, s := range streams {
		s.end(cause, refusal)
	}
	for _, answer := range calls {
		answer <- nil
	}
	close(m.died)
}

// running returns when the requests were submitted that the engine was running, as far as the last
// stats tell, by their key in suspects. The caller holds mu.
func (m *Model) running() map[uint64]time.Time {
	waiting := map[string]bool{}
	for _, r := range m.stats.Requests {
		waiting[r.ID] = r.Phase == "waiting"
	}
	running := map[uint64]time.Time{}
	for _, s := range m.streams {
		if s.key != 0 && !waiting[s.id] {
			running[s.key] = s.submitted
		}
	}
	return running
}

// crashed returns the Problem that says why the process ended. The process must have ended.
func (m *Model) crashed(when string) error {
	return problem.New(problem.Crashed, "The model's process ended "+when, m.process.exitReason(),
		"")
}

// cause waits until the process has ended and returns the Problem that says why.
func (m *Model) cause(when string) error {
	<-m.died
	return m.crashed(when)
}

// Died returns a channel that is closed when the process and all of its requests have ended.
func (m *Model) Died() <-chan struct{} { return m.died }

// Cause waits until the process has ended and returns the Problem that says why.
func (m *Model) Cause() error { return m.cause("unexpectedly") }

// PID returns the ID of the process.
func (m *Model) PID() int { return m.process.pid }

// Info describes the model and how it runs.
func (m *Model) Info() engine.Info { return m.opening.Info }

// Tokenizer returns the model's tokenizer. Like the template and the defaults, it is in this
// process, so that processing text does not wait for the worker.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.texts.Tokenizer() }

// Template returns the model's chat template, nil if it has none.
func (m *Model) Template() *chat.Template { return m.texts.Template() }

// Defaults returns the sampling parameters that the model recommends.
func (m *Model) Defaults() sample.Defaults { return m.texts.Defaults() }

// Title returns a title for the conversation that begins with these tokens.
func (m *Model) Title(tokens []int32) string { return m.texts.Title(tokens) }

// StoredModel returns the model's identity in the block store.
func (m *Model) StoredModel() engine.StoredModel { return m.opening.StoredAs }

// Stats returns the last stats that the worker sent. They are at least as new as every Done event
// that has been read.
func (m *Model) Stats() engine.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Requests = slices.Clone(s.Requests)
	return s
}

// Recent returns the last finished requests, at most 64, newest first. A request is among them as
// soon as its Done event has been read, unless the process ended during the request.
func (m *Model) Recent() []engine.Finished {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.recent)
}

// CachedPrefixes asks the worker for the prefixes in its memory. It returns nil if the process has
// ended.
func (m *Model) CachedPrefixes() []engine.CachedPrefix {
	if list, current := m.CachedPrefixesWithin(0); current {
		return list
	}
	return nil
}

// CachedPrefixesWithin is CachedPrefixes with a limit of its time; 0 means none. If the worker
// needs longer, it returns the answer of an earlier call, which may be empty, and false.
func (m *Model) CachedPrefixesWithin(most time.Duration) (list []engine.CachedPrefix,
	current bool) {
	a := m.call(most, func(n callNumber) *toWorker { return &toWorker{Prefixes: &n} })
	m.mu.Lock()
	defer m.mu.Unlock()
	if a == nil || a.Prefixes == nil {
		return m.prefixes, false
	}
	m.prefixes = a.Prefixes.List
	return m.prefixes, true
}

// Held returns how much of a prompt the worker has cached; see engine.Engine.Held. ok is false if
// the worker has not answered when ctx ends.
func (m *Model) Held(ctx context.Context, q engine.HeldQuestion) (h engine.Held, ok bool) {
	patience := heldPatience
	if until, limited := ctx.Deadline(); limited {
		patience = min(patience, time.Until(until))
	}
	if patience <= 0 {
		return h, false
	}
	a := m.call(patience, func(n callNumber) *toWorker {
		return &toWorker{Held: newHeldRequest(n, q, patience)}
	})
	if a == nil || a.Held == nil {
		return h, false
	}
	return a.Held.Held, a.Held.OK
}

// heldPatience bounds how long Held waits.
const heldPatience = time.Second

// Forget frees the cached blocks of a conversation; see engine.Engine.Forget. It returns 0 if the
// process has ended.
func (m *Model) Forget(tokens []int32) (freedBytes int64) {
	return m.forget(forgetRequest{Tokens: tokens})
}

// ForgetAll is Forget for every conversation.
func (m *Model) ForgetAll() (freedBytes int64) { return m.forget(forgetRequest{All: true}) }

func (m *Model) forget(f forgetRequest) int64 {
	a := m.call(0, func(n callNumber) *toWorker {
		f.Call = n
		return &toWorker{Forget: &f}
	})
	if a == nil || a.Forgotten == nil {
		return 0
	}
	return a.Forgotten.FreedBytes
}

// Shrink returns memory of the caches to the system; see engine.Engine.Shrink. It returns 0 if the
// process has ended.
func (m *Model) Shrink(keepBytes int64) (freedBytes int64) {
	a := m.call(0, func(n callNumber) *toWorker {
		return &toWorker{Shrink: &shrinkRequest{n, keepBytes}}
	})
	if a == nil || a.Forgotten == nil {
		return 0
	}
	return a.Forgotten.FreedBytes
}

// SetStoreLimits changes the limits of the worker's block store.
func (m *Model) SetStoreLimits(l engine.BlockStoreLimits) { m.send(&toWorker{Limits: &l}) }

// SetDutyCycle sets the share of time in which the engine computes; see
// engine.Engine.SetDutyCycle.
func (m *Model) SetDutyCycle(share float64) { m.send(&toWorker{DutyCycle: &share}) }

// SetDraftGain sets how much faster decoding ahead has to be; see engine.Engine.SetDraftGain.
func (m *Model) SetDraftGain(gain float64) { m.send(&toWorker{DraftGain: &gain}) }

// SetGrowth limits how much memory the model may take; see engine.Engine.SetGrowth.
func (m *Model) SetGrowth(g engine.Growth) { m.send(&toWorker{Growth: &g}) }

// FollowLogLevel sets the worker's log level to the current level of Options.Log.
func (m *Model) FollowLogLevel() {
	level := levelOf(m.log)
	m.send(&toWorker{LogLevel: &level})
}

// Submit queues a request; see engine.Engine.Submit. If the process has ended, the error is a
// Problem of code problem.Loading, or problem.NotRunning after Close.
func (m *Model) Submit(r engine.Request) (*engine.Stream, error) { return m.submit(r) }

// Cancel cancels the request with that ID and reports whether there was one.
func (m *Model) Cancel(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	for number, s := range m.streams {
		if s.id == id {
			m.send(&toWorker{Cancel: &number})
			found = true
		}
	}
	return found
}

// EndWithin makes the process end within that time: its requests are cancelled, and after that it
// is killed. The worker writes what it can before. Close is still necessary.
func (m *Model) EndWithin(most time.Duration) {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	m.send(&toWorker{Close: &closeRequest{}})
	m.process.wake() // a stopped process does not read the message
	late := time.AfterFunc(most, m.process.kill)
	go func() {
		<-m.died
		late.Stop()
	}()
}

// closeTime is how long a worker may take to end. In this time, engine and block store write their
// data to disk.
const closeTime = 25 * time.Second

// Close ends every request, writes the cached blocks that are not on disk yet, and returns when the
// process has ended. If the model is still loading, the process is killed.
func (m *Model) Close() error {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	select {
	case <-m.opened:
		m.send(&toWorker{Close: &closeRequest{}})
		m.process.wake()
	default:
		m.process.kill()
	}
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-m.died:
	case <-late.C:
		m.log.Warn("a model's process did not end in time", "pid", m.process.pid, "after",
			closeTime)
		m.process.kill()
		<-m.died
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}
