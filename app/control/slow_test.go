package control

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"headroom/engine/server"
)

// TestBodiesThatNeverCome: a request that is refused or that needs no body is answered at once, and
// its connection is closed, although most of its body is missing.
func TestBodiesThatNeverCome(t *testing.T) {
	a, _, _ := newAPI(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, l, a,
			server.ServeOptions{Limits: server.Limits{Linger: 50 * time.Millisecond}})
	}()
	t.Cleanup(func() { // after the parallel tests
		stop()
		<-ended
	})
	const token = TokenHeader + ": T\r\n"
	for _, c := range []struct {
		name, method, path, headers string
		status                      int
	}{
		{"no token", "POST", "/control/engine/start", "", 401},
		{"unknown route", "POST", "/control/nothing", token, 404},
		{"a route without a body", "POST", "/control/models/rescan", token, 200},
		{"a document", "GET", "/control/state", token, 200},
		{"a page", "POST", "/", "", 405},
		{"a missing page", "GET", "/nothing", "", 404},
		{"foreign host", "POST", "/control/engine/start", token + "Host: evil.com\r\n", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			host := "Host: localhost\r\n"
			if c.status == 403 {
				host = ""
			}
			_, _ = io.WriteString(conn, c.method+" "+c.path+" HTTP/1.1\r\n"+host+c.headers+
				"Content-Length: 1000\r\n\r\n{")
			lines := bufio.NewReader(conn)
			answer, err := http.ReadResponse(lines, nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			text, _ := io.ReadAll(answer.Body)
			// The web UI may be missing in this build: then every page is 404.
			if answer.StatusCode != c.status && c.status < 404 {
				t.Errorf("%d %s, expected %d", answer.StatusCode, text, c.status)
			}
			if _, err := lines.ReadByte(); err == nil || timedOut(err) {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

func timedOut(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
