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
	render    func(error) Event // renders an error in the dialect of the request
	renderer  Renderer
	refuse    func(error)
	prompt    func() generate.Usage // the tokens of the current answer's prompt

	events *eventWriter // nil until the headers are sent
	last   time.Time    // of the last events or comment
	began  bool         // the opening events are sent
}

// pingEvery is the time without output after which a Pinger sends its events.
const pingEvery = 5 * time.Second

// start sends the headers and the opening events, if it has not done so before.
func (o *streamed) start() error {
	if o.began {
		return nil
	}
	if p, ok := o.renderer.(PromptRenderer); ok {
		p.Prompt(o.prompt())
	}
	o.began = true
	if o.events == nil {
		o.events = startEvents(o.w, o.framing, o.timeout, o.contended)
	}
	o.events.stall.contended = o.contended
	return o.send(o.renderer.Start())
}

func (o *streamed) send(events []Event) error {
	o.last = time.Now()
	return o.events.events(events)
}

// progress sends a comment, which keeps the connection open through proxies. The web UI reads it.
func (o *streamed) progress(done, total int) error {
	return o.alive(fmt.Sprintf("keepalive %d/%d", done, total))
}

func (o *streamed) keepAlive() error { return o.alive("alive") }

// alive keeps the connection open: with a comment, or with the dialect's events if the time for
// them has come.
func (o *streamed) alive(comment string) error {
	if err := o.start(); err != nil {
		return err
	}
	pinger, ok := o.renderer.(Pinger)
	switch {
	case !ok:
		o.last = time.Now()
		return o.events.comment(comment)
	case time.Since(o.last) >= pingEvery:
		return o.send(pinger.Ping())
	}
	return nil
}

func (o *streamed) delta(d generate.Delta) error {
	if err := o.start(); err != nil {
		return err
	}
	events := o.renderer.Delta(d)
	if len(events) > 0 {
		return o.send(events)
	}
	if time.Since(o.last) < o.quiet {
		return nil
	}
	return o.alive("alive") // the client does not want this part of the answer
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
	return o.events.events(failure(o.renderer, o.render, err))
}

// failure returns the events of an error in a stream.
func failure(r Renderer, render func(error) Event, err error) []Event {
	if f, ok := r.(FailRenderer); ok {
		return f.Fail(err)
	}
	return []Event{render(err)}
}
