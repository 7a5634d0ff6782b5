package server_test

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/server"
)

const hiStreamed = `{"messages":[{"role":"user","content":"hi"}],"stream":true}`

// open posts a request. It returns a scanner over the lines of the response, and a function that
// disconnects the client.
func open(t *testing.T, url, body string) (lines *bufio.Scanner, leave func()) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(); answer.Body.Close() })
	return bufio.NewScanner(answer.Body), leave
}

// waitFor reads lines until one contains the text.
func waitFor(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the answer ended before %q: %v", text, lines.Err())
}

func waitClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(what + " did not happen")
	}
}

func TestKeepAlive(t *testing.T) {
	e := newFakeEngine(nil)
	s := start(t, e, server.Options{KeepAlive: time.Millisecond})
	go func() {
		stream := <-e.streams
		e.streams <- stream
	}()
	lines, _ := open(t, s.URL+"/v1/chat/completions", hiStreamed)
	// The headers and the first chunk need no event from the engine.
	waitFor(t, lines, `"role":"assistant"`)
	waitFor(t, lines, ": keepalive 0/11")
	waitFor(t, lines, ": keepalive 0/11") // repeated while the engine sends no events
	stream := <-e.streams
	stream.prefill(7, 0)
	waitFor(t, lines, ": keepalive 7/11")
	stream.say("a")
	waitFor(t, lines, `"reasoning_content":"a"`)
	waitFor(t, lines, ": alive") // after the prompt there is no progress to report
	stream.done(engine.FinishStop, nil)
	waitFor(t, lines, "data: [DONE]")
}

func TestDisconnectCancels(t *testing.T) {
	for name, body := range map[string]string{"stream": hiStreamed,
		"whole": strings.Replace(hiStreamed, "true", "false", 1)} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(nil)
			s := start(t, e, server.Options{})
			ctx, leave := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions",
				strings.NewReader(body))
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if answer, err := http.DefaultClient.Do(r); err == nil {
					answer.Body.Close()
				}
			}()
			stream := <-e.streams
			leave()
			waitClosed(t, stream.cancelled, "cancelling the request")
			waitClosed(t, answered, "the end of the request")
		})
	}
}

// TestDisconnectInMidStream disconnects after the first token, while the handler waits for the next
// one.
func TestDisconnectInMidStream(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) { s.say("a") })
	s := start(t, e, server.Options{})
	lines, leave := open(t, s.URL+"/v1/chat/completions", hiStreamed)
	waitFor(t, lines, `"reasoning_content":"a"`)
	leave()
	waitClosed(t, (<-e.streams).cancelled, "cancelling")
}

// TestSpeedOfACancelledStream: the log has the speed of an answer whose client went in the middle.
func TestSpeedOfACancelledStream(t *testing.T) {
	var logged bytes.Buffer
	e := newFakeEngine(nil)
	s := start(t, e, server.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))})
	read := make(chan struct{}) // the first token: a speed needs a time
	go func() {
		stream := <-e.streams
		stream.say("a")
		<-read
		stream.say(" b c")
		e.streams <- stream
	}()
	lines, leave := open(t, s.URL+"/v1/chat/completions", hiStreamed)
	waitFor(t, lines, `"reasoning_content":"a"`)
	close(read)
	waitFor(t, lines, `"reasoning_content":" c"`)
	leave()
	waitClosed(t, (<-e.streams).cancelled, "cancelling")
	s.Close() // waits for the handlers, which log when they return
	if got := logged.String(); !strings.Contains(got, "finish=cancelled") ||
		!strings.Contains(got, "completion_tokens=3") ||
		!regexp.MustCompile(`tokens_per_second=[1-9]`).MatchString(got) {
		t.Errorf("the log has %s", got)
	}
}

// TestPanic checks that a panic in a handler gives status 500, is logged, and does not end the
// server.
func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	s := start(t, nil, server.Options{Models: &panicking{fakeModels{engine: newFakeEngine(nil)}},
		Log: slog.New(slog.NewTextHandler(&logged, nil))})
	status, _, text := post(t, s.URL+"/v1/chat/completions", hiStreamed)
	if status != 500 || !strings.Contains(text, `"code":"internal"`) ||
		!strings.Contains(text, "a bug") {
		t.Errorf("got %d %s, expected 500 with the panic", status, text)
	}
	if status, _, _ = do(t, http.MethodGet, s.URL+"/v1/models", ""); status != 200 {
		t.Errorf("after the panic: status %d, expected 200", status)
	}
	s.Close() // waits for the handlers, which log when they return
	if got := logged.String(); !strings.Contains(got, "a handler panicked") ||
		!strings.Contains(got, "path=/v1/chat/completions status=500") {
		t.Errorf("the log has %s, expected the panic and the request", got)
	}
}

type panicking struct{ fakeModels }

func (*panicking) Wake(context.Context, string) (server.Model, error) { panic("a bug") }

// TestPanicInMidStream checks that a panic during a stream sends an error event and cancels the
// engine's request.
func TestPanicInMidStream(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		s.prefill(1, 0)
		// Without a tokenizer, looking up the bytes of this token for logprobs panics.
		s.put(engine.Event{Type: engine.Token, Token: -1})
	})
	e.tokenizer = nil
	s := start(t, e, server.Options{})
	lines, _ := open(t, s.URL+"/v1/completions", `{"prompt":[1],"stream":true,"logprobs":1}`)
	waitFor(t, lines, ": keepalive 1/1")
	waitFor(t, lines, `data: {"error":{"message":"Something went wrong inside Headroom`)
	waitClosed(t, (<-e.streams).cancelled, "cancelling")
}

// serve runs Serve on a free port. stop starts the shutdown, and wait waits until Serve returns.
func serve(t *testing.T, h http.Handler, drain time.Duration, closing func()) (url string,
	stop func(), wait func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, l, h,
			server.ServeOptions{Drain: drain, Closing: closing})
	}()
	return "http://" + l.Addr().String(), stop, func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Fatal("Serve did not return")
			return nil
		}
	}
}

func TestShutdownLetsAnswersFinish(t *testing.T) {
	e := newFakeEngine(nil)
	closing := make(chan struct{})
	url, stop, wait := serve(t,
		server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
			KeepAlive: time.Millisecond}), patience, func() { close(closing) })
	lines, _ := open(t, url+"/v1/chat/completions", hiStreamed)
	stream := <-e.streams
	stop()
	waitClosed(t, closing, "the call of closing")
	stream.say("the end")
	stream.done(engine.FinishStop, nil)
	waitFor(t, lines, "data: [DONE]")
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestShutdownCancelsWhatTakesTooLong(t *testing.T) {
	e := newFakeEngine(nil)
	url, stop, wait := serve(t,
		server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
			KeepAlive: time.Millisecond}), time.Nanosecond, nil)
	lines, _ := open(t, url+"/v1/chat/completions", hiStreamed)
	stream := <-e.streams
	stop()
	waitClosed(t, stream.cancelled, "cancelling")
	waitFor(t, lines, "Headroom is shutting down")
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestRequestsMove: a request whose process ends before its first token is submitted again, and the
// client gets one answer. With a token it fails, and a third end fails it, too.
func TestRequestsMove(t *testing.T) {
	crash := problem.New(problem.Crashed, "It ended", "it was killed", "")
	for name, c := range map[string]struct {
		ends   int  // how often the process ends
		token  bool // a token comes before
		status int
		want   string
	}{
		"once":          {1, false, 200, "answered"},
		"twice":         {2, false, 200, "answered"},
		"three times":   {3, false, 503, "model_crashed"},
		"after a token": {1, true, 503, "model_crashed"},
	} {
		t.Run(name, func(t *testing.T) {
			ends := 0
			e := newFakeEngine(func(s *fakeStream) {
				if ends++; ends > c.ends {
					s.say("answered")
					s.done(engine.FinishStop, nil)
					return
				}
				s.prefill(3, 0)
				if c.token {
					s.say("a")
				}
				s.done(engine.FinishError, crash)
			})
			s := start(t, e, server.Options{})
			status, header, text := post(t, s.URL+"/v1/completions", `{"prompt":"hi"}`)
			if status != c.status || strings.Count(text, c.want) != 1 {
				t.Errorf("got %d %s, want %d with %q", status, text, c.status, c.want)
			}
			if status == 503 && header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
}

// silentEngine is an engine whose process does not answer.
type silentEngine struct{ *fakeEngine }

func (silentEngine) Health(time.Duration) error {
	return problem.New(problem.Unresponsive, "It is silent", "for 3 s", "")
}

// TestHealthIsDegraded: /health says so while the model is silent, and while it is loaded again
// after crashes. The metrics tell it, too.
func TestHealthIsDegraded(t *testing.T) {
	models := &fakeModels{engine: silentEngine{newFakeEngine(nil)}}
	s := start(t, nil, server.Options{Models: models})
	const silent = `{"status":"degraded","model":"demo","reason":"model_unresponsive",` +
		`"message":"It is silent: for 3 s","retry_after":5}` + "\n"
	if status, _, text := do(t, http.MethodGet, s.URL+"/health", ""); status != 200 ||
		text != silent {
		t.Errorf("silent: got %d %s", status, text)
	}
	if _, _, text := do(t, http.MethodGet, s.URL+"/metrics", ""); !strings.Contains(text,
		"headroom_engine_up 0\n") {
		t.Errorf("metrics without headroom_engine_up 0:\n%s", text)
	}
	crashed := problem.New(problem.Crashed, "It crashed 3 times in a row", "", "")
	crashed.RetryAfter = time.Minute
	models.err = crashed
	const again = `{"status":"degraded","reason":"model_crashed",` +
		`"message":"It crashed 3 times in a row","retry_after":60}` + "\n"
	if status, _, text := do(t, http.MethodGet, s.URL+"/health", ""); status != 200 ||
		text != again {
		t.Errorf("crashed: got %d %s", status, text)
	}
	models.engine, models.err = newFakeEngine(nil), nil
	if _, _, text := do(t, http.MethodGet, s.URL+"/metrics", ""); !strings.Contains(text,
		"headroom_engine_up 1\n") {
		t.Errorf("metrics without headroom_engine_up 1:\n%s", text)
	}
}
