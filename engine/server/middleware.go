package server

// What surrounds every handler: one log line and one count per request, and a panic that ends a
// request but not the program.

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// record is what a request leaves in the log: one line at its end.
type record struct {
	model, id string
	prompt    engine.Usage
	timing    engine.Timing
	finish    string
	err       error
}

type recordKey struct{}

// recordOf returns the request's record; a scratch one for requests that came around observe.
func recordOf(r *http.Request) *record {
	if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
		return rec
	}
	return &record{}
}

func (rec *record) fail(err error) { rec.err = err }

// observe gives each request its record, and logs and counts it at the end.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, rec, sw := time.Now(), &record{}, &statusWriter{ResponseWriter: w}
		defer func() {
			status := sw.status
			if status == 0 {
				status = 200
			}
			s.metrics.request(routeOf(r), status)
			s.log.LogAttrs(r.Context(), levelOf(r, status), "request",
				rec.attributes(r, status, time.Since(begin))...)
		}()
		next.ServeHTTP(sw, r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)))
	})
}

// levelOf keeps probes and pages out of the ordinary log.
func levelOf(r *http.Request, status int) slog.Level {
	switch {
	case status >= 500:
		return slog.LevelError
	case r.Method == http.MethodPost || status >= 400:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (rec *record) attributes(r *http.Request, status int, took time.Duration) []slog.Attr {
	list := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", status), slog.Duration("took", took.Round(time.Millisecond))}
	if rec.model != "" {
		u, t := rec.prompt, rec.timing
		list = append(list, slog.String("model", rec.model), slog.String("id", rec.id),
			slog.String("finish", rec.finish),
			slog.Int("prompt_tokens", u.PromptTokens), slog.Int("cached_tokens", u.CachedTokens),
			slog.Int("completion_tokens", u.CompletionTokens),
			slog.Duration("first_token", t.FirstToken.Round(time.Millisecond)),
			slog.String("tokens_per_second", fmt.Sprintf("%.1f", t.DecodeTokensPerSecond())))
	}
	if rec.err != nil {
		list = append(list, slog.String("error", rec.err.Error()))
	}
	return list
}

// routeOf names the route for the metrics: a fixed set, whatever paths are asked for.
func routeOf(r *http.Request) string {
	path := r.URL.Path
	switch {
	case path == "/v1/chat/completions", path == "/v1/completions", path == "/v1/models",
		path == "/health", path == "/metrics":
		return path
	case strings.HasPrefix(path, "/v1/models/"):
		return "/v1/models/{id}"
	}
	return "other"
}

// Recover answers a panic of a handler with a 500 and logs where it came from. A stream that has
// begun gets an error event.
func Recover(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause) // net/http's own way to drop a connection
			}
			log.Error("a handler panicked", "path", r.URL.Path, "panic", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			body, m := errorBody(problem.New(problem.Internal,
				"Something went wrong inside Headroom", fmt.Sprint(cause),
				"Please report it with the log."))
			switch {
			case sw.status == 0:
				writeJSON(sw, m.status, body)
			case strings.HasPrefix(sw.Header().Get("Content-Type"), "text/event-stream"):
				_ = (&sse{w: sw, control: http.NewResponseController(sw),
					timeout: time.Second}).data(body)
			}
		}()
		next.ServeHTTP(sw, r)
	})
}

// statusWriter remembers the status. Unwrap lets http.ResponseController reach flushing and
// deadlines.
type statusWriter struct {
	http.ResponseWriter
	status int // 0: nothing written yet
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
