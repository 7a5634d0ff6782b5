package loop

import (
	"context"
	"io"
	"sync"
)

// Stream delivers the events of one request to one goroutine. A slow reader never delays the
// engine: events wait in a queue, whose length is limited by Request.MaxTokens.
type Stream struct {
	id  string
	end func(FinishReason)

	mu     sync.Mutex
	events []Event
	ended  bool          // Next has returned Done
	ready  chan struct{} // capacity 1: holds a value if there may be an event
}

// NewStream returns a stream for a request of an engine that runs elsewhere, and a function that
// adds events to it. Only one goroutine at a time may call put, and the last event must be Done.
// Stream.Cancel calls end with FinishCancelled, and Stream.Stop with FinishStop.
func NewStream(id string, end func(FinishReason)) (s *Stream, put func(Event)) {
	s = &Stream{id: id, end: end, ready: make(chan struct{}, 1)}
	return s, s.put
}

// ID returns the request's ID.
func (s *Stream) ID() string { return s.id }

// Cancel stops the request and frees its memory. A Done event with FinishCancelled follows, unless
// the request has ended already.
func (s *Stream) Cancel() { s.end(FinishCancelled) }

// Stop ends the request because its answer is complete. It is like Cancel, but the finish reason is
// FinishStop.
func (s *Stream) Stop() { s.end(FinishStop) }

// Next waits for the next event. After the Done event it returns io.EOF. If ctx ends first, Next
// returns ctx.Err() and the request continues.
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

// Unread returns how many events wait to be read. A reader that falls far behind should cancel the
// request, because the events take memory.
func (s *Stream) Unread() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// put adds an event. A Prefill event replaces an unread one, because only the latest matters.
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
