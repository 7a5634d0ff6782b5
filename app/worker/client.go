package worker

// The loaded model from the parent's side. One goroutine, listen, reads what the worker says; what
// is asked several times a second (figures, ended requests) is answered from what it said last, so
// that a worker that is stuck holds nobody up but its own requests.

import (
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

// Model is a model in a process of its own. Its methods may be called from any goroutine. Close
// ends it.
type Model struct {
	process *process
	options engine.Options // Progress and History
	log     *slog.Logger
	opened  chan struct{} // closed when opening is there
	opening opened
	texts   *engine.TextProcessor // nil until loaded
	died    chan struct{}         // closed when the process has ended and every request in it

	mu      sync.Mutex
	gone    bool // the process has ended
	closing bool
	last    uint64 // number of a stream or call
	streams map[streamNumber]*stream
	calls   map[callNumber]chan *fromWorker // capacity 1: the answer, nil if there will be none
	stats   engine.Stats
	recent  []engine.Finished // newest first
	pulse   *engine.Heartbeat // last answer; nil once watch has seen it
	failure error             // that the worker had with closing
}

// newModel begins to listen to the process.
func newModel(p *process, o engine.Options) *Model {
	m := unheard(p, o)
	go m.listen()
	return m
}

func unheard(p *process, o engine.Options) *Model {
	return &Model{process: p, options: o, log: p.log, opened: make(chan struct{}),
		died:    make(chan struct{}),
		streams: map[streamNumber]*stream{}, calls: map[callNumber]chan *fromWorker{}}
}

func (m *Model) tell(message *toWorker) { m.process.outbox.send(message) }

// listen hears the worker out, to its end.
func (m *Model) listen() {
	m.process.listen(m.hear)
	m.bury()
}

// hear does what a message asks for. Errors are faults of the worker.
func (m *Model) hear(message *fromWorker) error {
	switch {
	case message.Progress != nil:
		if m.options.Progress != nil {
			m.options.Progress(float64(*message.Progress))
		}
	case message.Opened != nil:
		select {
		case <-m.opened:
			return errors.New("it opened its model twice")
		default:
		}
		m.opening, m.stats = *message.Opened, message.Opened.Stats
		close(m.opened)
	case message.Learned != nil:
		if m.options.History != nil {
			m.options.History.Add(*message.Learned)
		}
	case message.Taken != nil:
		m.take(message.Taken)
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
	case message.Remembered != nil:
		m.answer(message.Remembered.Call, message)
	case message.Forgotten != nil:
		m.answer(message.Forgotten.Call, message)
	case message.Pulse != nil:
		m.mu.Lock()
		m.pulse = message.Pulse
		m.mu.Unlock()
	case message.Closed != nil:
		m.mu.Lock()
		m.failure = message.Closed.Problem.err()
		m.mu.Unlock()
	}
	return nil
}

// answer hands on what a call was answered.
func (m *Model) answer(call callNumber, message *fromWorker) {
	m.mu.Lock()
	answer := m.calls[call]
	delete(m.calls, call)
	m.mu.Unlock()
	if answer != nil {
		answer <- message
	}
}

// call has the worker asked by ask, and waits for its answer; nil when it is gone.
func (m *Model) call(ask func(callNumber) *toWorker) *fromWorker {
	answer := make(chan *fromWorker, 1)
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return nil
	}
	m.last++
	number := callNumber(m.last)
	m.calls[number] = answer
	m.mu.Unlock()
	m.tell(ask(number))
	return <-answer
}

// maxRecent is as many as an engine keeps.
const maxRecent = 64

// bury ends what was under way in a process that has ended.
func (m *Model) bury() {
	m.mu.Lock()
	m.gone = true
	closing, streams, calls, refusal := m.closing, m.streams, m.calls, m.refusal()
	m.streams, m.calls = nil, nil
	m.stats.Running, m.stats.Waiting, m.stats.Requests = 0, 0, nil
	m.mu.Unlock()
	if !closing {
		m.log.Error("a model's process ended", "pid", m.process.pid, "why", m.process.how(), "said",
			m.process.said.String())
	}
	cause := m.causeOf("in the middle of the request")
	for _, s := range streams {
		s.end(cause, refusal)
	}
	for _, answer := range calls {
		answer <- nil
	}
	close(m.died)
}

// causeOf is the Problem of requests that the process took with it.
func (m *Model) causeOf(when string) error {
	return problem.New(problem.Crashed, "The model's process ended "+when, m.process.how(), "")
}

// cause is why the process has ended; it waits for that.
func (m *Model) cause(when string) error {
	<-m.died
	return m.causeOf(when)
}

// Died is closed when the process has ended, however it did, and all requests have.
func (m *Model) Died() <-chan struct{} { return m.died }

// Cause is the Problem of a process that has ended by itself.
func (m *Model) Cause() error { return m.cause("unexpectedly") }

// PID is the process.
func (m *Model) PID() int { return m.process.pid }

// Info describes the model and how it runs.
func (m *Model) Info() engine.Info { return m.opening.Info }

// Tokenizer, Template and Defaults were read here: no request waits for the worker to read text.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.texts.Tokenizer() }

// Template is the model's chat template, nil if it has none.
func (m *Model) Template() *chat.Template { return m.texts.Template() }

// Defaults is what the model recommends.
func (m *Model) Defaults() sample.Defaults { return m.texts.Defaults() }

// Title is how a conversation that begins with these tokens is called.
func (m *Model) Title(tokens []int32) string { return m.texts.Title(tokens) }

// StoredModel returns the key of the model's blocks in the block store.
func (m *Model) StoredModel() engine.StoredModel { return m.opening.StoredAs }

// Stats is what the worker said last: at most a moment old, and never older than a Done that has
// been read.
func (m *Model) Stats() engine.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Requests = slices.Clone(s.Requests)
	return s
}

// Recent is the last requests that have ended, the newest first. A request whose Done has been read
// is among them, unless the process died in it.
func (m *Model) Recent() []engine.Finished {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.recent)
}

// CachedPrefixes asks the worker for the prefixes in its memory; nil when it is gone.
func (m *Model) CachedPrefixes() []engine.CachedPrefix {
	if a := m.call(func(n callNumber) *toWorker { return &toWorker{Remembered: &n} }); a != nil &&
		a.Remembered != nil {
		return a.Remembered.List
	}
	return nil
}

// Forget frees what the worker's memory has of a conversation; see engine.Engine.Forget. A worker
// that is gone remembers nothing.
func (m *Model) Forget(tokens []int32) (freedBytes int64) {
	return m.forget(forgetting{Tokens: tokens})
}

// ForgetAll is Forget for every conversation.
func (m *Model) ForgetAll() (freedBytes int64) { return m.forget(forgetting{All: true}) }

func (m *Model) forget(f forgetting) int64 {
	a := m.call(func(n callNumber) *toWorker {
		f.Call = n
		return &toWorker{Forget: &f}
	})
	if a == nil || a.Forgotten == nil {
		return 0
	}
	return a.Forgotten.FreedBytes
}

// SetStoreLimits changes what the worker's block store may take.
func (m *Model) SetStoreLimits(l engine.BlockStoreLimits) { m.tell(&toWorker{Limits: &l}) }

// SetDutyCycle sets the share of the time that the worker computes; see engine.Engine.SetDutyCycle.
func (m *Model) SetDutyCycle(share float64) { m.tell(&toWorker{DutyCycle: &share}) }

// FollowLogLevel has the worker log what Options.Log takes now.
func (m *Model) FollowLogLevel() {
	level := levelOf(m.log)
	m.tell(&toWorker{LogLevel: &level})
}

// Submit queues a request; see engine.Engine.Submit.
func (m *Model) Submit(r engine.Request) (*engine.Stream, error) { return m.submit(r) }

// Cancel stops the request of that ID. It reports whether there was one.
func (m *Model) Cancel(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	for number, s := range m.streams {
		if s.id == id {
			m.tell(&toWorker{Cancel: &number})
			found = true
		}
	}
	return found
}

// closeTime is how long a worker may take to end: as long as an engine writes what is not on disk
// yet, and its block store after it.
const closeTime = 25 * time.Second

// Close ends every request, has the block store write what it lacks, and returns when the process
// has ended. A model that is not loaded yet has nothing to write.
func (m *Model) Close() error {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	select {
	case <-m.opened:
		m.tell(&toWorker{Close: &ending{}})
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
