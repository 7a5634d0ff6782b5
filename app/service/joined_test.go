package service

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

func freeListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := listen("127.0.0.1", 0, ownPort)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestAlso: the server answers at both ports, until it is closed, and at its own port alone if the
// other one is taken.
func TestAlso(t *testing.T) {
	free := freeListener(t)
	port := free.Addr().(*net.TCPAddr).Port
	first := freeListener(t)
	for _, other := range []int{0, first.Addr().(*net.TCPAddr).Port, port} {
		if l := also(first, "127.0.0.1", other); l != first {
			t.Fatalf("listens on %d, which it cannot", other)
		}
	}
	_ = free.Close()
	l := also(first, "127.0.0.1", port)
	if l == first || l.Addr() != first.Addr() {
		t.Fatalf("listens at %v", l.Addr())
	}
	server := &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	addresses := []string{first.Addr().String(), free.Addr().String()}
	for range 3 {
		for _, address := range addresses {
			answer, err := http.Get("http://" + address)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if string(text) != address {
				t.Errorf("%s answers %s", address, text)
			}
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the server ends with %v", err)
	}
	for _, address := range addresses {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s is still open", address)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener accepts: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
