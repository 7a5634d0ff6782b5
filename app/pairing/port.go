package pairing

// The TLS connections of the port. Their handshakes are made before an HTTP server sees them, so a
// client that speaks anything but TLS gets no answer at all, not even the sentence with which
// net/http answers plain HTTP.

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// handshakeTime bounds a handshake.
	handshakeTime = 10 * time.Second
	// lingerTime is how long a refused connection stays open for its client to read the alert.
	lingerTime = time.Second
)

// Listener returns a listener of l's connections after their handshakes. Each is a *tls.Conn. Its
// Close closes l, and the connections that Accept has not returned. Handshakes run at once, as many
// as l has connections: see the limits of server.Serve.
func Listener(l net.Listener, config *tls.Config) net.Listener {
	ctx, stop := context.WithCancel(context.Background())
	t := &listener{Listener: l, config: config, conns: make(chan net.Conn),
		errors: make(chan error), ctx: ctx, stop: stop}
	go t.run()
	return t
}

type listener struct {
	net.Listener
	config *tls.Config
	conns  chan net.Conn
	errors chan error
	ctx    context.Context
	stop   func()
	once   sync.Once
}

// run accepts connections until the listener is closed.
func (l *listener) run() {
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			go l.handshake(conn)
			continue
		}
		select {
		case l.errors <- err:
		case <-l.ctx.Done():
			return
		}
	}
}

// handshake makes the handshake of a connection and passes it on.
func (l *listener) handshake(raw net.Conn) {
	conn := tls.Server(raw, l.config)
	ctx, stop := context.WithTimeout(l.ctx, handshakeTime)
	err := conn.HandshakeContext(ctx)
	stop()
	if err != nil {
		slog.Debug("a connection to the port for machines was refused", "address",
			raw.RemoteAddr(), "err", err)
		linger(raw)
		return
	}
	select {
	case l.conns <- conn:
	case <-l.ctx.Done():
		_ = raw.Close()
	}
}

// linger closes a connection after its client has had time to read the alert of a refused
// handshake: with unread data, the system would reset the connection and drop the alert.
func linger(raw net.Conn) {
	defer raw.Close()
	half, ok := raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = raw.SetDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, raw, 64<<10)
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case err := <-l.errors:
		return nil, err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		l.stop()
		err = l.Listener.Close()
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
