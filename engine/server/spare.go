package server

// Processor time for work that nobody waits for: checking the lines of a batch, reading its
// requests. On a machine with few cores such work would slow the engine, whose threads wait for one
// another in each step.

import (
	"context"
	"sync/atomic"
	"time"

	"headroom/engine/guard"
)

const (
	// spareSlice is how long such work runs without a pause: less than a step of most models.
	spareSlice = time.Millisecond
	// spareRatio is how many times as long as it has run it pauses while others wait for answers.
	// It then takes less than 3 % of one core.
	spareRatio = 40
	// sparePause is the longest pause, since the others may have ended meanwhile.
	sparePause = time.Second
)

// Spare is processor time that is left over. One piece of work at a time uses it. While a request
// that is not in the background is answered, that piece has long pauses; otherwise it has none. Its
// methods are safe for concurrent use. The zero value is not valid; see NewSpare.
type Spare struct {
	busy  atomic.Int64 // requests that somebody waits for
	turn  chan struct{}
	pause func(ctx context.Context, d time.Duration) error
}

// NewSpare returns a Spare that nobody keeps from working.
func NewSpare() *Spare { return &Spare{turn: make(chan struct{}, 1), pause: pause} }

// Wait notes that somebody waits for an answer until done is called.
func (s *Spare) Wait() (done func()) {
	s.busy.Add(1)
	return func() { s.busy.Add(-1) }
}

// Take waits for its turn and begins a piece of work. The caller must call Give. The error is that
// of ctx.
func (s *Spare) Take(ctx context.Context) (*Share, error) {
	select {
	case s.turn <- struct{}{}: // those who wait are served in order
		return &Share{of: s, ctx: ctx, since: time.Now()}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Share is a piece of work in its turn. One goroutine uses it.
type Share struct {
	of    *Spare
	ctx   context.Context
	since time.Time // of the last pause
}

// Yield pauses if the work has run for long enough. It is cheap enough to be called for each line
// of a file. The error is that of the context.
func (s *Share) Yield() error {
	if time.Since(s.since) < spareSlice {
		return nil
	}
	return s.rest()
}

// rest pauses for what the work has taken since the last pause, if others wait for answers.
func (s *Share) rest() error {
	worked := time.Since(s.since)
	err := s.ctx.Err()
	if err == nil && s.of.busy.Load() > 0 {
		err = s.of.pause(s.ctx, min(spareRatio*worked, sparePause))
	}
	s.since = time.Now()
	return err
}

// Give ends the piece of work, after a last pause.
func (s *Share) Give() {
	_ = s.Yield()
	<-s.of.turn
}

// Spare returns the processor time that the requests of this server leave.
func (s *Server) Spare() *Spare { return s.spare }

// inTurn calls do at once, or, for a request in the background, when it has its turn of the spare
// time. Parsing and encoding a long prompt takes as much time as decoding many tokens.
func (s *Server) inTurn(ctx context.Context, do func() error) error {
	if !guard.InBackground(ctx) {
		return do()
	}
	share, err := s.spare.Take(ctx)
	if err != nil {
		return err
	}
	defer share.Give()
	return do()
}
