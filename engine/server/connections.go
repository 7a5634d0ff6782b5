package server

// A listener that limits connections, in total and per peer. If all are taken, a new connection
// replaces the one that has been idle longest. Without an idle one, the new connection is answered
// with 503 and closed.

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"headroom/engine/problem"
)

// connections is a net.Listener whose open connections are limited.
type connections struct {
	net.Listener
	limits Limits
	silent bool // connections beyond the limits get no answer
	logged quiet
	// refusals limits the goroutines that answer refused connections.
	refusals chan struct{}

	mu    sync.Mutex
	open  map[*connection]time.Time // since when it waits for a request; zero: it has one
	peers map[netip.Prefix]int
}

func limitConnections(l net.Listener, limits Limits, log *slog.Logger) *connections {
	return &connections{Listener: l, limits: limits, logged: quiet{log: log},
		refusals: make(chan struct{}, 32), open: map[*connection]time.Time{},
		peers: map[netip.Prefix]int{}}
}

// Accept returns the next connection within the limits. If descriptors are lacking, it closes a
// connection that is kept alive and tries again. Without one, the error is returned as it is:
// http.Server waits a little, up to a second, and calls Accept again.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			if kept := l.dropKept(); kept != nil {
				_ = kept.Close()
				continue
			}
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.logged.warn("a connection could not be accepted", "err", err)
			}
			return nil, err
		}
		c := &connection{Conn: conn, list: l, peer: peerOf(conn.RemoteAddr())}
		evicted, ok := l.add(c)
		if evicted != nil {
			_ = evicted.Close()
		}
		if !ok {
			l.logged.warn("a connection was refused: there are too many",
				"limit", l.limits.Connections, "limit_per_peer", l.limits.PerPeer,
				"peer", conn.RemoteAddr())
			l.refuse(conn)
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // an optimization: the default works too
		}
		return c, nil
	}
}

// peerOf returns the address that limits apply to: an IPv4 address, or the /64 network that an IPv6
// host usually has for itself. The zero Prefix stands for this machine.
func peerOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return netip.Prefix{}
	case ip.Is4():
		return netip.PrefixFrom(ip, 32)
	}
	network, _ := ip.Prefix(64) // it has 128 bits, so this cannot fail
	return network
}

// add adds a connection if the limits allow it. evicted was removed for it and must be closed.
func (l *connections) add(c *connection) (evicted *connection, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.peer.IsValid() && l.peers[c.peer] >= l.limits.PerPeer {
		if evicted = l.longestIdle(&c.peer); evicted == nil {
			return nil, false
		}
	} else if len(l.open) >= l.limits.Connections {
		if evicted = l.longestIdle(nil); evicted == nil {
			return nil, false
		}
	}
	if evicted != nil {
		l.drop(evicted)
	}
	l.open[c] = time.Now()
	l.peers[c.peer]++
	return evicted, true
}

// dropKept drops and returns the connection that has been kept alive longest, nil for none. Unlike
// one that is new, it can be closed without harm: its client opens another one.
func (l *connections) dropKept() *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest *connection
	for c, at := range l.open {
		if c.kept && !at.IsZero() && (longest == nil || at.Before(l.open[longest])) {
			longest = c
		}
	}
	if longest != nil {
		l.drop(longest)
	}
	return longest
}

// longestIdle returns the connection that has waited longest for a request, nil if all have one. If
// peer is not nil, it considers only connections of that peer. The caller holds mu.
func (l *connections) longestIdle(peer *netip.Prefix) (longest *connection) {
	var since time.Time
	for c, at := range l.open {
		if !at.IsZero() && (peer == nil || c.peer == *peer) &&
			(longest == nil || at.Before(since)) {
			longest, since = c, at
		}
	}
	return longest
}

// drop removes a connection from the counts. Dropping it again does nothing. The caller holds mu.
func (l *connections) drop(c *connection) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	if l.peers[c.peer]--; l.peers[c.peer] == 0 {
		delete(l.peers, c.peer)
	}
}

// follow is the ConnState of the http.Server. A connection with a request is never evicted.
func (l *connections) follow(conn net.Conn, state http.ConnState) {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = over.NetConn()
	}
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; !ok {
		return
	}
	switch state {
	case http.StateIdle:
		l.open[c], c.kept = time.Now(), true
	case http.StateActive:
		l.open[c] = time.Time{}
	}
}

// refuse answers with 503 and closes the connection, or only closes it if silent is set. If many
// connections are being refused, it closes the connection at once.
func (l *connections) refuse(conn net.Conn) {
	if l.silent {
		_ = conn.Close()
		return
	}
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		defer func() { <-l.refusals }()
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(l.limits.Linger))
		if _, err := io.WriteString(conn, tooManyConnections); err != nil {
			return
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			// Unread data would make the system reset the connection, and the client might lose
			// the answer.
			_, _ = io.CopyN(io.Discard, conn, maxHeaderBytes)
		}
	}()
}

// tooManyConnections is the answer to a connection beyond the limits.
var tooManyConnections = func() string {
	body := `{"error":{"message":"Too many connections are open. Close some, or try again.",` +
		`"type":"server_error","param":null,"code":"` + string(problem.Busy) + `"}}` + "\n"
	return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\nRetry-After: 1\r\n" +
		"Connection: close\r\n\r\n" + body
}()

// connection is an accepted connection, counted until it is closed.
type connection struct {
	net.Conn
	list *connections
	peer netip.Prefix
	kept bool // it has had a request; guarded by list.mu
}

func (c *connection) Close() error {
	c.list.mu.Lock()
	c.list.drop(c)
	c.list.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets http.Server close the connection in both directions one after the other, so that
// clients can read the last answer.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// quiet logs an event at most once a minute, with the number of events since the last line.
type quiet struct {
	log  *slog.Logger
	mu   sync.Mutex
	next time.Time
	kept int
}

func (q *quiet) warn(message string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kept++
	now := time.Now()
	if now.Before(q.next) {
		return
	}
	q.log.Warn(message, append(args, "times", q.kept)...)
	q.next, q.kept = now.Add(time.Minute), 0
}
