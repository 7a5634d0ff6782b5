package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/guard"
	"headroom/engine/server"
)

// quick are limits that tests do not have to wait for.
var quick = server.Limits{Window: 300 * time.Millisecond, Linger: 50 * time.Millisecond,
	Header: 300 * time.Millisecond}

// serveWith runs Serve with these options until the test ends. It returns the address.
func serveWith(t *testing.T, h http.Handler, o server.ServeOptions) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveListener(t, l, h, o)
	return l.Addr().String()
}

func serveListener(t *testing.T, l net.Listener, h http.Handler, o server.ServeOptions) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l, h, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// dial connects and sends the text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answerOf reads the answer of a connection, which the server must then close. It returns how long
// each took.
func answerOf(t *testing.T, conn net.Conn) (status int, body string, answered,
	closed time.Duration) {
	t.Helper()
	begin := time.Now()
	lines := bufio.NewReader(conn)
	answer, err := http.ReadResponse(lines, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("the answer is cut: %v", err)
	}
	answered = time.Since(begin)
	if _, err := lines.ReadByte(); err == nil || errors.Is(err, context.DeadlineExceeded) ||
		isTimeout(err) {
		t.Errorf("the connection is still open: %v", err)
	}
	return answer.StatusCode, string(text), answered, time.Since(begin)
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// withBody returns a request that declares a body of 1,000 bytes and sends one.
func withBody(method, path, headers string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n" +
		headers + "\r\n{"
}

// TestBodiesThatNeverCome: a request that is refused, or that needs no body, is answered at once,
// and its connection is closed.
func TestBodiesThatNeverCome(t *testing.T) {
	s := server.New(server.Options{Models: &fakeModels{engine: newFakeEngine(nil)},
		Dialects: dialects, Guard: &guard.Guard{APIKey: "k"},
		Log: slog.New(slog.DiscardHandler)})
	address := serveWith(t, s, server.ServeOptions{Limits: server.Limits{
		Linger: 50 * time.Millisecond}}) // the window is the default: no answer waits for it
	const key = "X-Api-Key: k\r\n"
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"unknown route", withBody("POST", "/nothing", key), 404},
		{"unknown route of the API", withBody("POST", "/v1/foo", key), 404},
		{"health with a body", withBody("GET", "/health", ""), 200},
		{"metrics with a body", withBody("GET", "/metrics", key), 200},
		{"models with a body", withBody("GET", "/v1/models", key), 200},
		{"foreign host", strings.Replace(withBody("POST", "/v1/completions", key),
			"127.0.0.1", "evil.com", 1), 403},
		{"foreign page", withBody("POST", "/v1/completions", key+"Origin: http://evil.com\r\n"),
			403},
		{"no key", withBody("POST", "/v1/completions", ""), 401},
		{"declared too large", strings.Replace(withBody("POST", "/v1/completions", key), "1000",
			"33000000", 1), 413},
		{"chunks, no key", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n5\r\n{", 401},
		{"preflight with a body", withBody("OPTIONS", "/v1/completions",
			"Origin: http://localhost\r\n"), 204},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, body, answered, closed := answerOf(t, dial(t, address, c.request))
			if status != c.status || answered > 2*time.Second || closed > 2*time.Second {
				t.Errorf("%d after %v, closed after %v, expected %d at once: %s", status, answered,
					closed, c.status, body)
			}
		})
	}
}

// TestAnswerAfterTheBody: a client that sends its whole body before it reads gets the answer of a
// request that was refused unread. The answer is complete while the body still arrives.
func TestAnswerAfterTheBody(t *testing.T) {
	s := server.New(server.Options{Models: &fakeModels{engine: newFakeEngine(nil)},
		Dialects: dialects, Log: slog.New(slog.DiscardHandler)})
	address := serveWith(t, s, server.ServeOptions{Limits: server.Limits{Linger: patience}})
	const size = 24 << 20 // more than the system buffers
	head := strings.Replace(withBody("POST", "/v1/completions", ""), "1000", fmt.Sprint(size), 1)
	_, sent, _ := strings.Cut(head, "\r\n\r\n")
	conn := dial(t, address, head)
	part := make([]byte, 1<<20)
	for left := size - len(sent); left > 0; {
		n, err := conn.Write(part[:min(left, len(part))])
		if err != nil {
			t.Fatalf("with %d bytes left: %v", left, err)
		}
		if left -= n; left < 1<<20 {
			break
		}
		time.Sleep(50 * time.Millisecond) // in all longer than http.Server waits by itself
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != 413 || err != nil || !strings.Contains(string(text), "too large") {
		t.Errorf("%d %s, %v", answer.StatusCode, text, err)
	}
}

// TestSlowBodies: a body that stops, or that comes too slowly, ends with 408.
func TestSlowBodies(t *testing.T) {
	s := server.New(server.Options{Models: &fakeModels{engine: newFakeEngine(nil)},
		Dialects: dialects, Log: slog.New(slog.DiscardHandler)})
	address := serveWith(t, s, server.ServeOptions{Limits: quick})
	for name, send := range map[string]func(net.Conn){
		"one byte": func(net.Conn) {},
		"a byte now and then": func(c net.Conn) {
			for ticks := time.Tick(20 * time.Millisecond); ; <-ticks {
				if _, err := c.Write([]byte(" ")); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, address, withBody("POST", "/v1/completions", ""))
			go send(conn)
			status, body, _, closed := answerOf(t, conn)
			if status != 408 || !strings.Contains(body, `"code":"timeout"`) ||
				closed > 5*time.Second {
				t.Errorf("%d %s, closed after %v, expected 408", status, body, closed)
			}
		})
	}
}

// TestLateAnswer: the deadlines of a body and of earlier answers do not end a request that the
// model takes long for.
func TestLateAnswer(t *testing.T) {
	e := newFakeEngine(nil)
	limits := quick
	limits.Write = 100 * time.Millisecond
	address := serveWith(t, server.New(server.Options{Models: &fakeModels{engine: e},
		Dialects: dialects, Log: slog.New(slog.DiscardHandler)}),
		server.ServeOptions{Limits: limits})
	for range 2 { // on one connection
		go func() {
			s := <-e.streams
			<-e.requests
			time.Sleep(2 * quick.Window) // longer than all deadlines
			s.say("late")
			s.done(engine.FinishStop, nil)
		}()
		status, _, text := post(t, "http://"+address+"/v1/completions", `{"prompt":"a"}`)
		if status != 200 || !strings.Contains(text, "late") {
			t.Errorf("%d %s, expected the answer", status, text)
		}
	}
}

// TestConnectionLimits: beyond the limit, a new connection replaces an idle one. If all connections
// have requests, it gets 503. The log has one line.
func TestConnectionLimits(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	busy := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	})
	var log lockedLog
	address := serveWith(t, busy, server.ServeOptions{
		Limits: server.Limits{Connections: 4, Linger: 50 * time.Millisecond},
		Log:    slog.New(slog.NewTextHandler(&log, nil))})
	defer close(release)
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	halfOpen := dial(t, address, "GET / HT")
	for range 4 {
		dial(t, address, get)
		waitClosed(t, begun, "the request")
	}
	if _, err := halfOpen.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the half-open connection is still open: %v", err)
	}
	for range 3 {
		if status, _, _, _ := answerOf(t, dial(t, address, get)); status != 503 {
			t.Errorf("status %d, expected 503", status)
		}
	}
	if n := strings.Count(log.String(), "connection was refused"); n != 1 {
		t.Errorf("%d lines, expected 1: %s", n, log.String())
	}
}

// lockedLog is a buffer that a logger may write while a test reads it.
type lockedLog struct{ text atomic.Value }

func (l *lockedLog) Write(data []byte) (int, error) {
	l.text.Store(l.String() + string(data))
	return len(data), nil
}

func (l *lockedLog) String() string {
	text, _ := l.text.Load().(string)
	return text
}

// TestOutOfDescriptors: after Accept has failed with EMFILE, the server goes on.
func TestOutOfDescriptors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failing := &failingListener{Listener: l}
	failing.left.Store(3)
	serveListener(t, failing, http.NotFoundHandler(), server.ServeOptions{})
	if status, _, _ := post(t, "http://"+l.Addr().String()+"/", "x"); status != 404 {
		t.Errorf("status %d", status)
	}
	if left := failing.left.Load(); left >= 0 {
		t.Errorf("Accept was to fail %d more times", left+1)
	}
}

// TestDescriptorsOfIdleConnections: if descriptors are lacking, a connection that is kept alive is
// closed for a new one, which does not wait.
func TestDescriptorsOfIdleConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 3
	scarce := &scarceListener{Listener: l, most: most}
	serveListener(t, scarce, http.NotFoundHandler(), server.ServeOptions{})
	for n := range 3 * most {
		conn := dial(t, l.Addr().String(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n") // is kept alive
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != 404 {
			t.Fatalf("with %d connections: %v", n, err)
		}
	}
	if n := scarce.failed.Load(); n < 2*most {
		t.Errorf("Accept has failed %d times", n)
	}
}

// scarceListener fails with EMFILE while most connections are open, as Linux does, also if no new
// one waits.
type scarceListener struct {
	net.Listener
	most         int32
	open, failed atomic.Int32
}

type scarceConn struct {
	net.Conn
	close func()
}

func (c scarceConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func (l *scarceListener) Accept() (net.Conn, error) {
	if l.open.Load() >= l.most {
		l.failed.Add(1)
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return scarceConn{conn, sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type failingListener struct {
	net.Listener
	left atomic.Int32
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestLongHeader: a header over the limit is refused with 431.
func TestLongHeader(t *testing.T) {
	address := serveWith(t, http.NotFoundHandler(), server.ServeOptions{Limits: quick})
	conn := dial(t, address, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n",
		strings.Repeat("x", 80<<10)))
	if status, _, _, _ := answerOf(t, conn); status != 431 {
		t.Errorf("status %d, expected 431", status)
	}
}

// TestSlowHeader: a header that does not end closes the connection.
func TestSlowHeader(t *testing.T) {
	address := serveWith(t, http.NotFoundHandler(), server.ServeOptions{Limits: quick})
	conn := dial(t, address, "GET / HTTP/1.1\r\nHost: a\r\n")
	if text, err := io.ReadAll(conn); err != nil {
		t.Errorf("%q, %v; expected the end of the connection", text, err)
	}
}

// TestHalfClose: a client that closes its direction of the connection after the request gets an
// error, never an empty answer with status 200. Metrics and log count status 499.
func TestHalfClose(t *testing.T) {
	for name, body := range map[string]string{"whole": `{"prompt":"a"}`,
		"streamed": `{"prompt":"a","stream":true}`} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(nil)
			var log lockedLog
			s := server.New(server.Options{Models: &fakeModels{engine: e}, Dialects: dialects,
				KeepAlive: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
			address := serveWith(t, s, server.ServeOptions{})
			conn := dial(t, address, fmt.Sprintf("POST /v1/completions HTTP/1.1\r\n"+
				"Host: a.localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			stream := <-e.streams
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			status, text, _, _ := answerOf(t, conn)
			if status != 499 || !strings.Contains(text, `"code":"cancelled"`) {
				t.Errorf("%d %q, expected 499", status, text)
			}
			waitClosed(t, stream.cancelled, "cancelling")
			_, _, metrics := do(t, http.MethodGet, "http://"+address+"/metrics", "")
			if !strings.Contains(metrics, `{route="/v1/completions",status="499"} 1`) ||
				!strings.Contains(log.String(), "status=499") {
				t.Errorf("metrics or log lack 499: %s", log.String())
			}
		})
	}
}

// TestSlowReaderIsCancelled: a client that reads much more slowly than the model writes loses its
// answer, because the events take memory.
func TestSlowReaderIsCancelled(t *testing.T) {
	e := newFakeEngine(func(s *fakeStream) {
		for range 3000 {
			s.token(5, "x")
		}
	})
	s := start(t, e, server.Options{})
	lines, _ := open(t, s.URL+"/v1/completions", `{"prompt":"a","stream":true}`)
	waitClosed(t, (<-e.streams).cancelled, "cancelling")
	waitFor(t, lines, `"code":"timeout"`)
}

// TestIdleConnection: a connection without a request is closed after a while.
func TestIdleConnection(t *testing.T) {
	address := serveWith(t, http.NotFoundHandler(),
		server.ServeOptions{Limits: server.Limits{Idle: 50 * time.Millisecond}})
	conn := dial(t, address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if status, _, _, _ := answerOf(t, conn); status != 404 {
		t.Errorf("status %d", status)
	}
}

// TestBodyBeforeTheList: while the folders of models are searched, nobody waits for the list to
// bound a body.
func TestBodyBeforeTheList(t *testing.T) {
	for _, unlisted := range []bool{true, false} {
		e := newFakeEngine(func(s *fakeStream) { s.done(engine.FinishStop, nil) })
		models := &countedLists{fakeModels: fakeModels{engine: e, unlisted: unlisted}}
		s := start(t, e, server.Options{Models: models})
		status, _, text := post(t, s.URL+"/v1/completions",
			`{"prompt":"U"}`)
		if status != 200 || unlisted != (models.lists == 0) {
			t.Errorf("unlisted: %t: %d %.200s, %d lists", unlisted, status, text, models.lists)
		}
	}
}

// countedLists counts how often the models are listed.
type countedLists struct {
	fakeModels
	lists int
}

func (m *countedLists) List() []server.ModelInfo {
	m.lists++
	return m.fakeModels.List()
}

// TestBodyLongerThanTheContext: a body that no context of the model could hold is refused unread.
func TestBodyLongerThanTheContext(t *testing.T) {
	e := newFakeEngine(nil)
	e.info.ContextTokens = 4096 // 256 KiB of text at most, and 1 MiB for the rest
	address := serveWith(t, server.New(server.Options{Models: &fakeModels{engine: e},
		Dialects: dialects, Log: slog.New(slog.DiscardHandler)}),
		server.ServeOptions{Limits: quick})
	conn := dial(t, address, strings.Replace(withBody("POST", "/v1/completions", ""), "1000",
		"1310721", 1))
	status, body, answered, _ := answerOf(t, conn)
	if status != 400 || !strings.Contains(body, `"code":"context_length_exceeded"`) ||
		!strings.Contains(body, "maximum context length is 4096 tokens") ||
		answered > 2*time.Second {
		t.Errorf("%d %s after %v, expected 400", status, body, answered)
	}
}
