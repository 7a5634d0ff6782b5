package service

// The second port. Clients of Ollama look for it at its own port, so the server can listen there,
// too, with the same rules.

import (
	"errors"
	"log/slog"
	"net"
	"sync"
)

// OllamaPort is the port of Ollama.
const OllamaPort = 11434

// also returns a listener that accepts the connections of l and of another port. If that port is 0,
// or taken, it returns l: whoever needs the other port reads in the log why it is not there.
func also(l net.Listener, hostName string, port int) net.Listener {
	if port == 0 {
		return l
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.Port == port {
		return l
	}
	second, err := listen(hostName, port, ollamaPort)
	if err != nil {
		slog.Warn("Ollama's clients do not find this server at their own port", "port", port,
			"err", err)
		return l
	}
	slog.Info("Ollama's clients find this server at their own port", "port", port)
	return join(l, second)
}

// joined is a listener that accepts the connections of several. Its address is the first one's.
type joined struct {
	net.Listener
	list   []net.Listener
	conns  chan net.Conn
	errors chan error
	closed chan struct{}
	once   sync.Once
}

func join(list ...net.Listener) *joined {
	j := &joined{Listener: list[0], list: list, conns: make(chan net.Conn),
		errors: make(chan error), closed: make(chan struct{})}
	for _, l := range list {
		go j.accept(l)
	}
	return j
}

// accept passes on what a listener accepts, until the joined one is closed.
func (j *joined) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			select {
			case j.errors <- err:
			case <-j.closed:
				return
			}
			continue
		}
		select {
		case j.conns <- conn:
		case <-j.closed:
			_ = conn.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (j *joined) Accept() (net.Conn, error) {
	select {
	case conn := <-j.conns:
		return conn, nil
	case err := <-j.errors:
		return nil, err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (j *joined) Close() (err error) {
	j.once.Do(func() {
		close(j.closed)
		for _, l := range j.list {
			err = errors.Join(err, l.Close())
		}
	})
	return err
}
