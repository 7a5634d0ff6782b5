package server

// The streamed form of an answer. Comments keep proxies and clients waiting while a long prompt is
// read, and half an answer never ends like a whole one.

import (
	"fmt"
	"net/http"
	"time"

	"headroom/engine/openai"
)

// streamed sends an answer as server-sent events. The headers go out with the first thing to say,
// so that an error before it still gets its own status.
type streamed struct {
	w            http.ResponseWriter
	timeout      time.Duration
	form         form
	includeUsage bool
	refuse       func(error)

	events *sse // nil until the headers are out
}

func (o *streamed) begin() error {
	if o.events != nil {
		return nil
	}
	o.events = startSSE(o.w, o.timeout)
	if opening := o.form.opening(); opening != nil {
		return o.events.data(opening)
	}
	return nil
}

// progress is a comment, which clients ignore and our UI reads; proxies see that the connection
// lives.
func (o *streamed) progress(done, total int) error {
	if err := o.begin(); err != nil {
		return err
	}
	return o.events.comment(fmt.Sprintf("keepalive %d/%d", done, total))
}

func (o *streamed) alive() error {
	if err := o.begin(); err != nil {
		return err
	}
	return o.events.comment("alive")
}

func (o *streamed) text(p part) error {
	if err := o.begin(); err != nil {
		return err
	}
	return o.events.data(o.form.piece(p))
}

func (o *streamed) end(finish string, usage *openai.Usage) error {
	if err := o.begin(); err != nil {
		return err
	}
	if err := o.events.data(o.form.finish(finish)); err != nil {
		return err
	}
	if o.includeUsage {
		if err := o.events.data(o.form.usage(usage)); err != nil {
			return err
		}
	}
	return o.events.done()
}

// fail sends the error as an event, after which the stream ends without [DONE]: clients must not
// take half an answer for a whole one.
func (o *streamed) fail(err error) error {
	if o.events == nil {
		o.refuse(err)
		return nil
	}
	body, _ := errorBody(err)
	return o.events.data(body)
}
