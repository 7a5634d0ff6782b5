package worker

// The loaded model from the parent's side. One goroutine, listen, reads the worker's messages.
// Stats and finished requests, which are read several times a second, are answered from the last
// message, so that a stuck worker blocks only its own requests.

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

// Model is a model in a separate process. Its methods may be called from any goroutine. Close ends
// the process.
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

// newModel returns the model of a process and starts to listen to it.
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

// listen reads the worker's messages until it ends.
func (m *Model) listen() {
	m.process.listen(m.hear)
	m.bury()
}

// hear handles one message. An error is a fault of the worker.
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

// call sends the message that ask returns and waits for its answer; nil if the process has ended.
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

// maxRecent is the number that an engine keeps.
const maxRecent = 64

// bury ends the requests and calls of a process that has ended.
func (m *Model) bury() {
	m.mu.Lock()
	m.gone = true
	closing, streams, calls, refusal := m.closing, m.streams, m.calls, m.refusal()
	m.streams, m.calls = nil, nil
	m.stats.Running, m.stats.Waiting, m.stats.Requests = 0, 0, nil
	m.mu.Unlock()
	if !closing {
		m.log.Error("a model's process ended", "pid", m.process.pid, "why", m.process.exitReason(),
			"said",
			m.process.stderr.String())
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

// causeOf returns the Problem of requests that ended with the process.
func (m *Model) causeOf(when string) error {
	return problem.New(problem.Crashed, "The model's process ended "+when, m.process.exitReason(),
		"")
}

// cause waits for the end of the process and returns the Problem that says why it ended.
func (m *Model) cause(when string) error {
	<-m.died
	return m.causeOf(when)
}

// Died returns a channel that is closed when the process and all of its requests have ended.
func (m *Model) Died() <-chan struct{} { return m.died }

// Cause returns the Problem of a process that has ended by itself.
func (m *Model) Cause() error { return m.cause("unexpectedly") }

// PID returns the ID of the process.
func (m *Model) PID() int { return m.process.pid }

// Info returns the description of the model and how it runs.
func (m *Model) Info() engine.Info { return m.opening.Info }

// Tokenizer returns the model's tokenizer. Like the template and the defaults, it is loaded in this
// process, so that no request waits for the worker to process text.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.texts.Tokenizer() }

// Template returns the model's chat template, nil if it has none.
func (m *Model) Template() *chat.Template { return m.texts.Template() }

// Defaults returns the sampling parameters that the model recommends.
func (m *Model) Defaults() sample.Defaults { return m.texts.Defaults() }

// Title returns a title for the conversation that begins with these tokens.
func (m *Model) Title(tokens []int32) string { return m.texts.Title(tokens) }

// StoredModel returns the key of the model's blocks in the block store.
func (m *Model) StoredModel() engine.StoredModel { return m.opening.StoredAs }

// Stats returns the worker's last figures. They are never older than a Done event that has been
// read.
func (m *Model) Stats() engine.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Requests = slices.Clone(s.Requests)
	return s
}

// Recent returns the last finished requests, the newest first. A request whose Done has been read
// is among them, unless the process ended during it.
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

// Forget frees the cached blocks of a conversation; see engine.Engine.Forget. It returns 0 if the
// process has ended.
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

// SetStoreLimits changes the limits of the worker's block store.
func (m *Model) SetStoreLimits(l engine.BlockStoreLimits) { m.tell(&toWorker{Limits: &l}) }

// SetDutyCycle sets the share of the time that the worker computes; see engine.Engine.SetDutyCycle.
func (m *Model) SetDutyCycle(share float64) { m.tell(&toWorker{DutyCycle: &share}) }

// FollowLogLevel sets the worker's log level to that of Options.Log.
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

// closeTime is how long a worker may take to end. It covers the writes of the engine and of its
// block store.
const closeTime = 25 * time.Second

// Close ends every request, writes the cached blocks that are not on disk yet, and returns when the
// process has ended. A model that is not loaded yet has nothing to write.
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
