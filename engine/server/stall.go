package server

// Clients that do not read. Each stream takes one of the model's few sequences, so a client that
// stops reading must not hold it for long while others wait.

import (
	"net/http"
	"sync"
	"time"
)

const (
	// stallPatience is how long a write may make no progress while other requests wait.
	stallPatience = 3 * time.Second
	// stallCheck is the time between two checks whether other requests wait.
	stallCheck = 500 * time.Millisecond
	// maxUnread is how many events of the model may wait for a client that reads slowly: half a
	// megabyte.
	maxUnread = 2048
)

// stall limits the duration of writes to one client. It is used by one goroutine.
type stall struct {
	control *http.ResponseController
	timeout time.Duration // of one write
	// contended reports whether other requests wait for the model. nil: none ever does.
	contended func() bool

	mu      sync.Mutex
	writing bool
	timer   *time.Timer // calls check; nil before the first write
}

// begin sets the deadline of a write. Writers in tests may not support deadlines.
func (s *stall) begin() {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if s.contended == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = true
	if s.timer == nil {
		s.timer = time.AfterFunc(stallPatience, s.check)
		return
	}
	s.timer.Reset(stallPatience)
}

// end is called after each write.
func (s *stall) end() {
	if s.contended == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	s.timer.Stop()
}

// check ends a write that has taken too long while others wait. Else it checks again later.
func (s *stall) check() {
	others := s.contended()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.writing: // the timer fired while the write ended
	case others:
		_ = s.control.SetWriteDeadline(time.Now())
	default:
		s.timer.Reset(stallCheck)
	}
}
