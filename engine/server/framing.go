package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// eventWriter writes the events of a stream and flushes each of them immediately. An error means
// that the client has disconnected. Sources:
// https://html.spec.whatwg.org/multipage/server-sent-events.html and https://jsonlines.org
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	framing Framing
	stall   *stall
}

// contentTypes maps framings to content types.
var contentTypes = map[Framing]string{
	ServerSentEvents: "text/event-stream; charset=utf-8",
	JSONLines:        "application/x-ndjson",
}

// startEvents sends the headers of a stream. X-Accel-Buffering prevents nginx from buffering
// events.
func startEvents(w http.ResponseWriter, f Framing, timeout time.Duration,
	contended func() bool) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", contentTypes[f])
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return newEventWriter(w, f, timeout, contended)
}

// newEventWriter returns an eventWriter. timeout is the maximum duration of one write; contended is
// described at stall.
func newEventWriter(w http.ResponseWriter, f Framing, timeout time.Duration,
	contended func() bool) *eventWriter {
	control := http.NewResponseController(w)
	return &eventWriter{w: w, control: control, framing: f,
		stall: &stall{control: control, timeout: timeout, contended: contended}}
}

// framingOf returns the framing of a response that has begun. ok is false if it is not a stream.
func framingOf(h http.Header) (f Framing, ok bool) {
	for f, contentType := range contentTypes {
		if h.Get("Content-Type") == contentType {
			return f, true
		}
	}
	// An event stream of another handler may have other parameters in its content type.
	return ServerSentEvents, strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// events writes the events in order.
func (e *eventWriter) events(list []Event) error {
	for _, event := range list {
		if err := e.event(event); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventWriter) event(event Event) error { return e.write(framed(e.framing, event)) }

// framed returns the text of an event.
func framed(f Framing, event Event) string {
	data, ok := event.Data.(Text)
	if !ok {
		data = Text(encode(event.Data))
	}
	switch {
	case f == JSONLines:
		return string(data) + "\n"
	case event.Name != "":
		return "event: " + event.Name + "\ndata: " + string(data) + "\n\n"
	}
	return "data: " + string(data) + "\n\n"
}

// comment writes a line that clients ignore. If the framing has no comments, it writes nothing.
func (e *eventWriter) comment(text string) error {
	if e.framing != ServerSentEvents {
		return nil
	}
	return e.write(": " + text + "\n\n")
}

// write writes and flushes text. It sets a deadline, so that a client that does not read cannot
// block the handler. Writers in tests may not support flushing.
func (e *eventWriter) write(text string) error {
	e.stall.begin()
	defer e.stall.end()
	if _, err := e.w.Write([]byte(text)); err != nil {
		return writeError{err}
	}
	if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return writeError{err}
	}
	return nil
}

// writeError wraps an error from writing to the client.
type writeError struct{ error }

func isWriteError(err error) bool {
	var w writeError
	return errors.As(err, &w)
}

// encode encodes a document as one line of JSON. It does not escape <, > and &, because browsers do
// not parse the answers as HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("server: encode: %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// WriteJSON answers a request of a Route.Handle with a document.
func WriteJSON(w http.ResponseWriter, v any) { writeJSON(w, http.StatusOK, v) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeData(w, status, append(encode(v), '\n'))
}

func writeData(w http.ResponseWriter, status int, json []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(json)))
	w.WriteHeader(status)
	_, _ = w.Write(json)
}
