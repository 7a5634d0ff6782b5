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
	// contended reports whether other requests wait for the model.
	contended func() bool
	framing   Framing
	dialect   Dialect
	renderer  Renderer
	refuse    func(error)

	events *eventWriter // nil until the headers are sent
}

// start sends the headers and the opening events, if it has not done so before.
func (o *streamed) start() error {
	if o.events != nil {
		return nil
	}
	o.events = startEvents(o.w, o.framing, o.timeout, o.contended)
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
	return o.events.events(o.renderer.Delta(d))
}

func (o *streamed) next(reason generate.FinishReason) error {
	if err := o.start(); err != nil {
		return err
	}
	return o.events.events(o.renderer.(ChoicesRenderer).Next(reason))
}

func (o *streamed) finish(reason generate.FinishReason, usage generate.Usage) error {
	if err := o.start(); err != nil {
		return err
	}
	return o.events.events(o.renderer.Finish(reason, usage))
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
