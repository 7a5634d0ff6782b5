package worker

// One request from the parent's side, from Submit to its only Done event. The worker sends that
// event; if the process has ended, bury does.

import (
	"crypto/rand"

	"headroom/engine"
	"headroom/engine/problem"
)

// stream is the parent's side of a request. Its fields do not change, except usage, which belongs
// to the listening goroutine.
type stream struct {
	id    string
	put   func(engine.Event)
	taken chan error // capacity 1: nil, or why it was refused
	usage engine.Usage
}

// refusal returns the Problem of requests that arrive when the process has ended or is about to.
// The caller holds mu.
func (m *Model) refusal() error {
	if m.closing {
		return problem.New(problem.NotRunning, "The model is being unloaded", "", "Start it again.")
	}
	return problem.New(problem.Loading, "The model's process has ended", "it is loaded again",
		"Try again in a moment.")
}

func (m *Model) submit(r engine.Request) (*engine.Stream, error) {
	if r.ID == "" {
		r.ID = rand.Text()
	}
	s := &stream{id: r.ID, taken: make(chan error, 1)}
	m.mu.Lock()
	if m.gone {
		defer m.mu.Unlock()
		return nil, m.refusal()
	}
	m.last++
	number := streamNumber(m.last)
	stream, put := engine.NewStream(r.ID, func() { m.tell(&toWorker{Cancel: &number}) })
	s.put = put
	m.streams[number] = s
	m.mu.Unlock()
	m.tell(&toWorker{Submit: &submission{number, r}})
	if err := <-s.taken; err != nil {
		return nil, err
	}
	return stream, nil
}

// take delivers whether the worker accepted a request.
func (m *Model) take(t *taken) {
	m.mu.Lock()
	s := m.streams[t.Stream]
	if t.Problem != nil {
		delete(m.streams, t.Stream)
	}
	m.mu.Unlock()
	if s != nil {
		s.answer(t.Problem.err())
	}
}

// answer delivers whether the request was accepted. Only the first call has an effect.
func (s *stream) answer(err error) {
	select {
	case s.taken <- err:
	default:
	}
}

// event delivers an event. After Done there is no stream of that number.
func (m *Model) event(e *event) {
	m.mu.Lock()
	s := m.streams[e.Stream]
	if e.Event.Type == engine.Done {
		delete(m.streams, e.Stream)
	}
	m.mu.Unlock()
	if s != nil {
		s.usage = e.Event.Usage
		s.put(e.Event.event())
		s.answer(nil) // a request with events was accepted
	}
}

// end sends the Done of a request whose process has ended. A request that was not accepted yet is
// refused instead.
func (s *stream) end(cause, refusal error) {
	s.put(engine.Event{Type: engine.Done, Finish: engine.FinishError, Err: cause, Usage: s.usage})
	s.answer(refusal)
}
