package server

import (
	"fmt"
	"net/http"
	"time"

	"headroom/engine/generate"
)

// streamed sends an answer while it is generated. It sends the headers with the first event or
// comment, so that an error before that can still have an HTTP status.
type streamed struct {
	w       http.ResponseWriter
	timeout time.Duration // maximum duration of one write
	quiet   time.Duration // the time without output after which a comment is sent
	// contended reports whether other requests wait for the model.
	contended func() bool
	framing   Framing
	dialect   Dialect
	renderer  Renderer
	refuse    func(error)

	events *eventWriter // nil until the headers are sent
	last   time.Time    // of the last event
}

// start sends the headers and the opening events, if it has not done so before.
func (o *streamed) start() error {
	if o.events != nil {
		return nil
	}
	o.events, o.last = startEvents(o.w, o.framing, o.timeout, o.contended), time.Now()
	return o.events.events(o.renderer.Start())
}

// progress sends a comment, which keeps the connection open through proxies. The web UI reads it.
func (o *streamed) progress(done, total int) error {
	if err := o.start(); err != nil {
		return err
	}
	return o.events.comment(fmt.Sprintf("keepalive %d/%d", done, total))
}

func (o *streamed) keepAlive() error {
	if err := o.start(); err != nil {
		return err
	}
	return o.events.comment("alive")
}

func (o *streamed) delta(d generate.Delta) error {
	if err := o.start(); err != nil {
		return err
	}
	events := o.renderer.Delta(d)
	now := time.Now()
	if len(events) == 0 { // the client does not want this part of the answer
		if now.Sub(o.last) < o.quiet {
			return nil
		}
		o.last = now
		return o.events.comment("alive")
	}
	o.last = now
	return o.events.events(events)
}

func (o *streamed) next(reason generate.FinishReason, stop string) error {
	if err := o.start(); err != nil {
		return err
	}
	tellStop(o.renderer, stop)
	return o.events.events(o.renderer.(ChoicesRenderer).Next(reason))
}

func (o *streamed) finish(reason generate.FinishReason, stop string, usage generate.Usage) error {
	if err := o.start(); err != nil {
		return err
	}
	tellStop(o.renderer, stop)
	return o.events.events(o.renderer.Finish(reason, usage))
}

// tellStop tells a renderer which stop text has ended the current answer, if it wants to know.
func tellStop(r Renderer, stop string) {
	if s, ok := r.(StopRenderer); ok && stop != "" {
		s.Stopped(stop)
	}
}

// fail sends the error instead of the closing events, so that no client mistakes an incomplete
// answer for a complete one.
func (o *streamed) fail(err error) error {
	if o.events == nil {
		o.refuse(err)
		return nil
	}
	return o.events.event(o.dialect.Error(err))
}
