package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headroom/engine/guard"
)

// TestSpare: work in spare time comes one after the other, and pauses while somebody waits for an
// answer.
func TestSpare(t *testing.T) {
	s := NewSpare()
	var paused time.Duration
	s.pause = func(ctx context.Context, d time.Duration) error {
		paused += d
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	share, err := s.Take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, giveUp := context.WithTimeout(ctx, time.Millisecond)
	defer giveUp()
	if _, err := s.Take(second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one gets %v, expected to wait", err)
	}
	const worked = 3 * spareSlice
	work := func() error {
		share.since = time.Now().Add(-worked)
		return share.Yield()
	}
	if err := work(); err != nil || paused > 0 {
		t.Errorf("%v, paused %v although nobody waits", err, paused)
	}
	done := s.Wait()
	if err := work(); err != nil || paused < spareRatio*worked || paused > 2*spareRatio*worked {
		t.Errorf("%v, paused %v after %v of work", err, paused, worked)
	}
	paused = 0
	for range 50 {
		if err := share.Yield(); err != nil {
			t.Fatal(err)
		}
	}
	if limit := spareRatio * 50 * spareSlice; paused > limit {
		t.Errorf("paused %v after hardly any work", paused)
	}
	share.since, paused = time.Now().Add(-time.Hour), 0
	if _ = share.Yield(); paused != sparePause {
		t.Errorf("paused %v after an hour", paused)
	}
	done()
	paused = 0
	if err := work(); err != nil || paused > 0 {
		t.Errorf("%v, paused %v after the answer", err, paused)
	}
	cancel()
	if err := work(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	share.Give()
	if _, err := s.Take(t.Context()); err != nil {
		t.Error("after Give:", err)
	}
}

// TestInTurn: only requests in the background wait for their turn.
func TestInTurn(t *testing.T) {
	s := &Server{spare: NewSpare()}
	share, err := s.spare.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	do := func() error {
		ran = true
		return nil
	}
	if err := s.inTurn(t.Context(), do); err != nil || !ran {
		t.Errorf("%v, a request that somebody waits for must not wait", err)
	}
	ran = false
	ctx, cancel := context.WithTimeout(guard.Background(t.Context()), time.Millisecond)
	defer cancel()
	if err := s.inTurn(ctx, do); err == nil || ran {
		t.Errorf("%v, a request in the background has not waited", err)
	}
	share.Give()
	if err := s.inTurn(guard.Background(t.Context()), do); err != nil || !ran {
		t.Error(err)
	}
}

// busyDialect has a route that says how many requests are waited for.
type busyDialect struct{ busy func() int64 }

func (d busyDialect) Routes() []Route {
	return []Route{{Pattern: "POST /busy", Answer: func(context.Context, []byte,
		Resources) (any, error) {
		return d.busy(), nil
	}}}
}

func (busyDialect) Error(err error) Event { return Event{Data: err.Error()} }

type noModels struct{ Models }

func (noModels) List() []ModelInfo { return nil }
func (noModels) Listed() bool      { return true }

// TestSpareIsLeft: requests count while they are answered, but not those in the background.
func TestSpareIsLeft(t *testing.T) {
	var s *Server
	s = New(Options{Models: noModels{}, Dialects: []Dialect{
		busyDialect{func() int64 { return s.spare.busy.Load() }}}})
	for want, ctx := range map[string]context.Context{"1": t.Context(),
		"0": guard.Background(t.Context())} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/busy", strings.NewReader("{}"))
		out := httptest.NewRecorder()
		s.Inside().ServeHTTP(out, r.WithContext(ctx))
		if got := strings.TrimSpace(out.Body.String()); got != want {
			t.Errorf("%s requests are waited for, expected %s", got, want)
		}
	}
	if n := s.Spare().busy.Load(); n != 0 {
		t.Errorf("%d requests are waited for after all have ended", n)
	}
}
