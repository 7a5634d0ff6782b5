package server

// What the server keeps of a request while it answers it: the models that the request holds, and a
// stream that had to begin before its model was loaded.

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// serving is the state of a request for a generation. It is used by the handler's goroutine, or by
// one that the handler waits for.
type serving struct {
	keepAlive *time.Duration // see Model.Release
	models    []Model
	call      *Call // nil: the body has not been read, or is not valid
	// document returns the answer to a call without a generation, once the models are released; see
	// Call.Loaded.
	document func() any
	// events is a stream that has begun with signs of life, while the request waited for its model;
	// nil: none has.
	events *eventWriter
}

// hold keeps a model loaded until release.
func (s *serving) hold(m Model) { s.models = append(s.models, m) }

// release ends the call and releases all models.
func (s *serving) release() {
	if s.call != nil && s.call.Ended != nil {
		s.call.Ended()
	}
	for _, m := range s.models {
		if m.Release != nil {
			m.Release(s.keepAlive)
		}
	}
	s.models, s.call = nil, nil
}

// wakeInterval is the time between two signs of life for a stream that waits for its model, in
// units of Options.KeepAlive: 5 s. The first one comes after that time, too: until then an error is
// still an HTTP status. Proxies close a silent connection after a minute, and clients after five.
const wakeInterval = 5

// wake gets the model of a call. While that takes long, it keeps the connection of a stream alive.
func (s *Server) wake(w http.ResponseWriter, r *http.Request, call *Call, held *serving) (Model,
	error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	possible := call.Waiting != nil || call.Framing == ServerSentEvents
	if call.Stream && call.Loaded == nil && possible { // the answer to Loaded is one document
		waiting := &waiter{begin: func() *eventWriter {
			return startEvents(w, call.Framing, s.writeTimeout, nil)
		}, render: call.Waiting, interval: wakeInterval * s.keepAlive, disconnected: cancel}
		waiting.mu.Lock()
		waiting.timer = time.AfterFunc(waiting.interval, waiting.alive)
		waiting.mu.Unlock()
		defer func() { held.events = waiting.stop() }()
	}
	m, err := s.modelsFor(r).Wake(ctx, call.Model)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = errDisconnected // a sign of life could not be written
	}
	if err == nil {
		held.keepAlive = call.KeepAlive
		held.hold(m)
	}
	return m, err
}

// waiter keeps a connection alive while its request waits for a model.
type waiter struct {
	begin        func() *eventWriter // sends the headers
	render       func() []Event      // see Call.Waiting
	interval     time.Duration
	disconnected func() // called when the client has gone

	mu     sync.Mutex
	timer  *time.Timer
	events *eventWriter // nil: not begun
	ended  bool
}

// alive sends a sign of life, and another one after the interval.
func (w *waiter) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if w.events == nil {
		w.events = w.begin()
	}
	var err error
	if w.render != nil {
		err = w.events.events(w.render())
	} else {
		err = w.events.comment("waiting for the model")
	}
	if err != nil {
		w.disconnected()
		return
	}
	w.timer.Reset(w.interval)
}

// stop ends the signs of life and returns the stream; nil if it has not begun.
func (w *waiter) stop() *eventWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	return w.events
}
