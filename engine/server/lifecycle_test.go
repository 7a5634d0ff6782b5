package server_test

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/engine"
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

// TestPanic checks that a panic in a handler gives status 500, is logged, and does not end the
// server.
func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	s := start(t, nil, server.Options{Models: &panicking{},
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
