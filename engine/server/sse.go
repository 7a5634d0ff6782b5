package server

import (
	"errors"
	"net/http"
	"time"
)

// sse writes server-sent events: "data: JSON" and ": comment", each flushed at once. An error means
// that the client is gone. Form: https://html.spec.whatwg.org/multipage/server-sent-events.html
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // for one write
}

// startSSE sends the headers. X-Accel-Buffering keeps nginx from holding events back.
func startSSE(w http.ResponseWriter, timeout time.Duration) *sse {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &sse{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (e *sse) data(v any) error { return e.write("data: " + string(encode(v)) + "\n\n") }

func (e *sse) done() error { return e.write("data: [DONE]\n\n") }

func (e *sse) comment(text string) error { return e.write(": " + text + "\n\n") }

// write bounds the time that a client who does not read may hold the handler. Writers without
// deadlines or flushing (in tests, or behind a proxy of a web view) do without.
func (e *sse) write(text string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(e.timeout)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return writeError{err}
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return writeError{err}
	}
	if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return writeError{err}
	}
	return nil
}
