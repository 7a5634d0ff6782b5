package server

// Middleware around every handler. It logs and counts each request, and recovers from panics.

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/generate"
	"headroom/engine/guard"
	"headroom/engine/problem"
)

// record collects the fields of the log line at the end of a request.
type record struct {
	request   string // the ID of the HTTP request, which the client gets as X-Request-Id
	client    string // the client's own ID of the request; "": none
	key       string // the name of the API key; "": it has none
	model, id string
	machine   string // that answers, if it is another one; "": this one does
	prompt    engine.Usage
	used      guard.Used // by all answers
	timing    engine.Timing
	noDrafts  engine.NoDrafts
	finish    string
	err       error
	private   bool // path and error may quote the request, so only route and code are logged
	// redact removes API keys from a text that the client has chosen; nil: guard.RedactKeys does.
	redact func(string) string
}

type recordKey struct{}

// recordOf returns the record of a request. If the request did not pass observe, it returns a new
// record that is never logged.
func recordOf(r *http.Request) *record {
	if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
		return rec
	}
	return &record{}
}

func (rec *record) fail(err error) { rec.err = err }

// withoutKeys returns a text without API keys, for the log.
func (rec *record) withoutKeys(text string) string {
	if rec.redact == nil {
		return guard.RedactKeys(text)
	}
	return rec.redact(text)
}

// observe attaches a record to each request, and logs and counts the request when it ends.
func (s *Server) observe(access *guard.Guard, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, sw := time.Now(), &statusWriter{ResponseWriter: w}
		rec := &record{private: mayBePrivate(r, nil), // until the body is read
			request: generate.NewID("req_"), client: clientID(r), redact: access.Redact}
		for _, name := range requestIDHeaders {
			w.Header().Set(name, rec.request)
		}
		defer func() {
			status := sw.status
			if status == 0 {
				status = 200
			}
			s.metrics.request(s.routeLabel(r.URL.Path), status)
			path := r.URL.Path
			if rec.private {
				path = s.routeLabel(path)
			}
			s.log.LogAttrs(r.Context(), levelOf(r, status), "request",
				rec.attributes(r.Method, path, status, time.Since(begin))...)
		}()
		next.ServeHTTP(sw, r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)))
	})
}

// requestIDHeaders are the headers with the ID of a request, as OpenAI and Anthropic call them.
// Their clients show it in errors.
var requestIDHeaders = []string{"X-Request-Id", "Request-Id"}

// clientID returns the ID that a client has given its request, for the log. Like OpenAI's servers,
// this one does not send it back.
func clientID(r *http.Request) string {
	const longest = 128
	id := r.Header.Get("X-Client-Request-Id")
	plain := !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
	if len(id) > longest || !plain {
		return ""
	}
	return id
}

// probes are the paths by which supervisors ask for the state of the server.
var probes = []string{"/health", "/ready"}

// levelOf returns the log level of a request. Successful GET requests, such as health checks and
// pages, have the level Debug. So have those of probes: that a model is loading is no error, and
// what has failed is in the log already. And so have the requests of batches.
func levelOf(r *http.Request, status int) slog.Level {
	switch {
	case r.Method == http.MethodGet && slices.Contains(probes, r.URL.Path):
		return slog.LevelDebug
	case status < 500 && guard.InBackground(r.Context()):
		return slog.LevelDebug // a batch has thousands
	case status >= 500:
		return slog.LevelError
	case r.Method == http.MethodPost || status >= 400:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (rec *record) attributes(method, path string, status int, took time.Duration) []slog.Attr {
	list := []slog.Attr{slog.String("method", method), slog.String("path", rec.withoutKeys(path)),
		slog.Int("status", status), slog.Duration("took", took.Round(time.Millisecond)),
		slog.String("request", rec.request)}
	if rec.client != "" && !rec.private {
		list = append(list, slog.String("client_request", rec.withoutKeys(rec.client)))
	}
	if rec.key != "" && !rec.private {
		list = append(list, slog.String("key", rec.key))
	}
	if rec.machine != "" {
		list = append(list, slog.String("machine", rec.machine), slog.String("model",
			rec.withoutKeys(rec.model)))
	} else if rec.model != "" {
		u, t := rec.prompt, rec.timing
		list = append(list, slog.String("model", rec.model), slog.String("id", rec.id),
			slog.String("finish", rec.finish),
			slog.Int("prompt_tokens", u.PromptTokens), slog.Int("cached_tokens", u.CachedTokens),
			slog.Int("completion_tokens", u.CompletionTokens),
			slog.Duration("first_token", t.FirstToken.Round(time.Millisecond)),
			slog.String("tokens_per_second", fmt.Sprintf("%.1f", t.DecodeTokensPerSecond())))
	}
	if rec.err != nil {
		text := rec.err.Error()
		if rec.private {
			text = string(problem.From(rec.err).Code)
		}
		list = append(list, slog.String("error", rec.withoutKeys(text)))
	}
	return list
}

// routeLabel returns the label of a path in the metrics. The set of labels is fixed: the path of
// any model has the label "/v1/models/{id}", and an unknown path has the label "other".
func (s *Server) routeLabel(path string) string {
	if slices.Contains(ownPaths, path) {
		return path
	}
	for pattern := range s.byPattern {
		_, route, _ := strings.Cut(pattern, " ")
		prefix, _, variable := strings.Cut(route, "{")
		switch {
		case route == path:
			return route
		case variable && strings.HasPrefix(path, prefix):
			return strings.Replace(route, "...}", "}", 1)
		}
	}
	return "other"
}

// Recover recovers from a panic in a handler and logs its stack. It answers with status 500, or, if
// a stream has begun, with an error event.
func Recover(log *slog.Logger, render ErrorRenderer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause) // net/http drops the connection
			}
			rec := recordOf(r)
			log.Error("a handler panicked", "path", rec.withoutKeys(r.URL.Path),
				"panic", rec.withoutKeys(fmt.Sprint(cause)), "stack", string(debug.Stack()))
			event := render(r, problem.New(problem.Internal,
				"Something went wrong inside Headroom", fmt.Sprint(cause),
				"Please report it with the log."))
			framing, streaming := framingOf(sw.Header())
			switch {
			case sw.status == 0:
				writeJSON(sw, http.StatusInternalServerError, event.Data)
			case streaming:
				_ = newEventWriter(sw, framing, time.Second, nil).event(event)
			}
		}()
		next.ServeHTTP(sw, r)
	})
}

// statusWriter records the status of a response. Unwrap gives http.ResponseController access to the
// writer below, for flushing and deadlines.
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
