package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"headroom/app/host"
	"headroom/app/jobs"
	"headroom/app/update"
)

// quietHost is a host without events.
type quietHost struct{ changed chan struct{} }

func (quietHost) State() host.State                                { return host.State{} }
func (quietHost) RescanModels()                                    {}
func (quietHost) Models(int) host.ModelList                        { return machine() }
func (quietHost) ModelChanges(int) ([]host.ModelChange, int)       { return nil, 0 }
func (h quietHost) Subscribe() (changed <-chan struct{}, f func()) { return h.changed, func() {} }

// fakeService records notices. The test calls click.
type fakeService struct {
	shown  chan Notice
	err    error
	mu     sync.Mutex
	click  func()
	closed bool
}

func (s *fakeService) Show(n Notice, clicked func()) error {
	s.mu.Lock()
	s.click = clicked
	s.mu.Unlock()
	s.shown <- n
	return s.err
}

func (s *fakeService) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// A finished download is announced, and a click on the notice names its model. While notifications
// are off, nothing is shown, also not later.
func TestFollow(t *testing.T) {
	list, service := jobs.NewList(),
		&fakeService{shown: make(chan Notice, 9), err: errors.New("no desktop")}
	defer list.Close()
	var mu sync.Mutex
	on, clicked := false, make(chan Notice, 9)
	ctx, cancel := context.WithCancel(context.Background())
	asked := make(chan bool, 9)
	ended := make(chan struct{})
	download := func(title, dir string) {
		list.Start(jobs.Spec{Kind: jobs.Download, Key: title, Title: title,
			Work: func(context.Context, *jobs.Progress) (string, error) { return dir, nil }})
	}
	h := quietHost{make(chan struct{}, 1)}
	watching := make(chan struct{})
	go func() {
		defer close(ended)
		Follow(ctx, Options{Host: signalingHost{h, watching}, Jobs: list, Service: service,
			Update: func() update.Known { return update.Known{} },
			Log:    slog.New(slog.DiscardHandler), Clicked: func(n Notice) { clicked <- n },
			On: func() bool {
				mu.Lock()
				defer mu.Unlock()
				asked <- on
				return on
			}})
	}()
	<-watching
	download("o/large", "/m/large")
	if <-asked {
		t.Fatal("the setting was on")
	}
	mu.Lock()
	on = true
	mu.Unlock()
	download("o/small", "/m/small")
	if n := <-service.shown; n.Start != "o/small" {
		t.Errorf("shown: %+v", n)
	}
	service.click()
	if n := <-clicked; n.Start != "o/small" {
		t.Errorf("clicked: %+v", n)
	}
	cancel()
	<-ended
	if !service.closed {
		t.Error("Follow did not close the service")
	}
}

// signalingHost closes stateRead when Follow reads the first state.
type signalingHost struct {
	quietHost
	stateRead chan struct{}
}

func (h signalingHost) State() host.State {
	select {
	case <-h.stateRead:
	default:
		close(h.stateRead)
	}
	return host.State{}
}
