package engine

// The hand-over from the engine's goroutine to a client's. The queue has no bound of its own, since
// MaxTokens bounds the events of a request: a slow reader costs memory and never time.

import (
	"context"
	"io"
	"sync"
)

// Stream is the events of one request, to be read by one goroutine. Reading slowly never holds the
// engine up: events wait here.
type Stream struct {
	id     string
	cancel func()

	mu     sync.Mutex
	events []Event
	ended  bool          // Done has been handed out
	ready  chan struct{} // capacity 1: there may be an event
}

// NewStream makes a stream for the requests of an engine that runs elsewhere. What put is given,
// Next hands out; put belongs to one goroutine, and a Done is the last it is given. cancel is what
// Cancel does.
func NewStream(id string, cancel func()) (s *Stream, put func(Event)) {
	s = &Stream{id: id, cancel: cancel, ready: make(chan struct{}, 1)}
	return s, s.put
}

// ID names the request.
func (s *Stream) ID() string { return s.id }

// Cancel stops the work at once and frees its memory; a Done event with FinishCancelled follows
// unless the request had ended.
func (s *Stream) Cancel() { s.cancel() }

// Next waits for the next event. After Done it returns io.EOF; when ctx ends first, ctx's error. It
// does not cancel the request.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		if len(s.events) > 0 {
			e := s.events[0]
			s.events = s.events[1:]
			s.ended = e.Type == Done
			s.mu.Unlock()
			return e, nil
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return Event{}, io.EOF
		}
		select {
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-s.ready:
		}
	}
}

// put is called by the engine's goroutine. Prefill events that nobody has read yet are replaced:
// only the latest matters.
func (s *Stream) put(e Event) {
	s.mu.Lock()
	if n := len(s.events); e.Type == Prefill && n > 0 && s.events[n-1].Type == Prefill {
		s.events[n-1] = e
	} else {
		s.events = append(s.events, e)
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
