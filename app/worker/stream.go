package worker

// One request on the parent's side, from Submit to its one Done event. The worker sends that event,
// or, if the process has ended, endAll.

import (
	"crypto/rand"
	"errors"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// stream is the parent's side of a request. Its fields do not change, except usage, which only the
// goroutine of Model.listen uses.
type stream struct {
	id       string
	put      func(engine.Event)
	accepted chan error // capacity 1: nil, or why the request was refused
	usage    engine.Usage

	key       uint64    // of the prompt in Model.suspects; 0: none
	submitted time.Time // when the request was sent to the worker
}

// refusal returns the Problem of requests that arrive when the process has ended. The caller holds
// mu.
func (m *Model) refusal() error {
	if m.closing {
		return problem.New(problem.NotRunning, "The model is being unloaded", "", "Start it again.")
	}
	return problem.New(problem.Loading, "The model's process has ended", "it is loaded again",
		"Try again in a moment.")
}

func (m *Model) submit(r engine.Request) (*engine.Stream, error) {
	if r.Sampling.Custom.IsSet() {
		return nil, errors.New("worker.Model.Submit: sample.Custom has functions, which cannot " +
			"be sent to another process: use engine.Open in this one")
	}
	if r.ID == "" {
		r.ID = rand.Text()
	}
	s := &stream{id: r.ID, accepted: make(chan error, 1), key: m.suspects.key(m.name, r.Prompt),
		submitted: time.Now()}
	if err := m.suspects.admit(s.key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.ended {
		defer m.mu.Unlock()
		m.suspects.ended(s.key, false)
		return nil, m.refusal()
	}
	m.last++
	number := streamNumber(m.last)
	stream, put := engine.NewStream(r.ID, func(reason engine.FinishReason) {
		if reason == engine.FinishStop {
			m.send(&toWorker{Stop: &number})
			return
		}
		m.send(&toWorker{Cancel: &number})
	})
	s.put = put
	m.streams[number] = s
	m.mu.Unlock()
	m.send(&toWorker{Submit: &submission{number, r}})
	if err := <-s.accepted; err != nil {
		return nil, err
	}
	return stream, nil
}

// accept handles the worker's answer to a submission.
func (m *Model) accept(t *accepted) {
	m.mu.Lock()
	s := m.streams[t.Stream]
	if t.Problem != nil {
		delete(m.streams, t.Stream)
	}
	m.mu.Unlock()
	if s != nil {
		if t.Problem != nil {
			m.suspects.ended(s.key, false)
		}
		s.answer(t.Problem.err())
	}
}

// answer makes submit return: nil means that the request was accepted. Only the first call has an
// effect.
func (s *stream) answer(err error) {
	select {
	case s.accepted <- err:
	default:
	}
}

// event delivers an event. After Done, the stream's number is no longer in use.
func (m *Model) event(e *event) {
	m.mu.Lock()
	s := m.streams[e.Stream]
	if e.Event.Type == engine.Done {
		delete(m.streams, e.Stream)
	}
	m.mu.Unlock()
	if s != nil {
		if s.usage = e.Event.Usage; e.Event.Type == engine.Done {
			m.suspects.ended(s.key, e.Event.Finish == engine.FinishStop ||
				e.Event.Finish == engine.FinishLength)
		}
		s.put(e.Event.event())
		s.answer(nil) // an event means that the request was accepted
	}
}

// end ends a request whose process has ended. If the request was accepted, it gets a Done event
// with cause; if not, submit returns refusal.
func (s *stream) end(cause, refusal error) {
	s.put(engine.Event{Type: engine.Done, Finish: engine.FinishError, Err: cause, Usage: s.usage})
	s.answer(refusal)
}
