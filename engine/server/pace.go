package server

// Pacing: deadlines for reading bodies and writing answers, on every route. A client that stops in
// the middle of a body, or that does not read its answer, keeps its connection only for a while.

import (
	"io"
	"net/http"
	"time"
)

// paced wraps all handlers of a server.
func (l Limits) paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), limits: &l}
		if r.Body != nil && r.Body != http.NoBody {
			p.body = &pacedBody{ReadCloser: r.Body, control: p.control, limits: &l}
			// A copy, because http.Server must see the type of its own body.
			copied := *r
			copied.Body = p.body
			r = &copied
		}
		// An earlier request of this connection may have left a deadline that has passed. It would
		// break "100 Continue".
		p.renew(time.Now(), 0)
		next.ServeHTTP(p, r)
		p.begin()
		p.renew(time.Now(), 0) // http.Server writes the rest of its buffer
		p.linger()
	})
}

// pacedBody is a body that must arrive at a least rate. In each window of time, either the rate
// times the window arrives or the body ends.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	limits  *Limits
	started bool  // a window has begun
	need    int64 // bytes that must still arrive in this window
	total   int64
	ended   bool
	// streamed says that the body goes to a file, and not into memory: a large one may be slow.
	streamed bool
}

// Read sets a deadline, which stays if the body does not end: http.Server reads the rest of a body
// before it closes the connection.
func (b *pacedBody) Read(data []byte) (int, error) {
	if !b.started || b.need <= 0 {
		rate := int64(minBodyRate)
		if b.total >= largeBody && !b.streamed {
			rate = minLargeBodyRate
		}
		b.started, b.need = true, int64(b.limits.Window.Seconds()*float64(rate))
		_ = b.control.SetReadDeadline(time.Now().Add(b.limits.Window))
	}
	n, err := b.ReadCloser.Read(data)
	b.total += int64(n)
	b.need -= int64(n)
	if err == io.EOF {
		// From here on, http.Server reads only to notice that the client disconnects.
		b.ended = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// restart begins a new window, after the server itself has waited.
func (b *pacedBody) restart() { b.started = false }

// pacedWriter is a response whose writes have deadlines. If the response begins before the body has
// ended, it closes the connection, and the rest of the body has little time.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limits  *Limits
	body    *pacedBody // nil: the request has none
	begun   bool
	own     bool // the handler sets the deadlines of its writes
}

// begin is called before the header is written. Without it http.Server would wait for the rest of
// the body before it sends the answer.
func (w *pacedWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.body != nil && !w.body.ended {
		w.Header().Set("Connection", "close")
		_ = w.control.SetReadDeadline(time.Now().Add(w.limits.Linger))
	}
}

// linger sends the answer, and reads the rest of the body for a while. Many clients send the whole
// body before they read. Without this, the system would reset the connection, because http.Server
// reads little of the rest, and the client would see that instead of the answer.
func (w *pacedWriter) linger() {
	if w.body == nil || w.body.ended || w.control.Flush() != nil {
		return
	}
	_ = w.control.SetReadDeadline(time.Now().Add(w.limits.Linger))
	_, _ = io.Copy(io.Discard, w.body.ReadCloser) // until the deadline, or the end
}

// renew sets the deadline of the next part of a write that began at begun.
func (w *pacedWriter) renew(begun time.Time, written int) {
	at := time.Now().Add(w.limits.Write)
	all := time.Duration(written) * time.Second / minAnswerRate
	if latest := begun.Add(w.limits.Write + all); latest.Before(at) {
		at = latest
	}
	_ = w.control.SetWriteDeadline(at)
}

func (w *pacedWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes in parts, so that a long answer only has to make progress, at minAnswerRate on
// average.
func (w *pacedWriter) Write(data []byte) (written int, err error) {
	const part = 64 << 10
	w.begin()
	begun := time.Now()
	for first := true; err == nil && (first || len(data) > 0); first = false {
		if !w.own {
			w.renew(begun, written)
		}
		var n int
		n, err = w.ResponseWriter.Write(data[:min(len(data), part)])
		data, written = data[n:], written+n
	}
	return written, err
}

// SetWriteDeadline is called by a handler that sets the deadlines of its writes.
func (w *pacedWriter) SetWriteDeadline(at time.Time) error {
	w.own = true
	return w.control.SetWriteDeadline(at)
}

func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
