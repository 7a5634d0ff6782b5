package host

// The first seconds. Model folders may be many or slow, so the first scan may take a while. The
// endpoint answers meanwhile: State and Acquire do not wait for the scan. A request for a model
// does, and also for the start that StartLater has begun, so that it is not refused because it came
// early.

import (
	"context"

	"headroom/app/library"
	"headroom/engine/problem"
)

// StartLater does what Start does, in the background, because finding the model takes as long as
// the first scan. Requests that arrive meanwhile wait for it. The channel receives Start's error.
func (h *Host) StartLater(nameOrDir string) (started <-chan error) {
	done, result := make(chan struct{}), make(chan error, 1)
	h.mu.Lock()
	h.starting = done
	h.mu.Unlock()
	go func() {
		id, err := h.start(nameOrDir)
		h.mu.Lock()
		h.startedLater = id
		if h.starting == done {
			h.starting = nil
		}
		h.subscribers.notify()
		h.mu.Unlock()
		close(done)
		result <- err
	}()
	return result
}

// StartedLater returns the ID of the model that StartLater has started, whichever was started
// since; "": none was.
func (h *Host) StartedLater() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.startedLater
}

// Listed reports whether the first scan of the model folders has ended. Until then, Models and List
// wait.
func (h *Host) Listed() bool {
	w := h.models.watcher
	return w == nil || w.Listed()
}

// modelsSoon returns the models for a list. It waits for the first scan, but after the start of the
// Host no longer than a request waits for its model: a folder on a disk that does not answer must
// not keep all lists from being shown. Then it returns what is known without a scan, the bundled
// model. No other can be loaded by then, because starting one waits for the scan.
func (h *Host) modelsSoon() []library.Model {
	if w := h.models.watcher; w != nil && !w.Listed() {
		ctx, cancel := context.WithDeadline(context.Background(),
			h.begun.Add(h.requestRules().Wait))
		defer cancel()
		if w.Await(ctx) != nil {
			return []library.Model{h.options.Library.Bundled()}
		}
	}
	return h.models.list()
}

// AwaitStart waits for the first scan and for StartLater. The error is that of ctx.
func (h *Host) AwaitStart(ctx context.Context) error {
	if w := h.models.watcher; w != nil {
		if err := w.Await(ctx); err != nil {
			return err
		}
	}
	h.mu.Lock()
	starting := h.starting
	h.mu.Unlock()
	if starting == nil {
		return nil
	}
	select {
	case <-starting:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begins reports whether it is not known yet which models there are and which one starts.
func (h *Host) begins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starting != nil || !h.Listed()
}

func errBegins() error {
	return problem.New(problem.Loading, "The models are being looked for",
		"Headroom has just started", "Try again in a moment.")
}

// noteListed notifies subscribers when the first scan has ended.
func (h *Host) noteListed(ctx context.Context) {
	if w := h.models.watcher; w != nil && w.Await(ctx) == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.subscribers.notify()
	}
}
