package cluster

// Connections to rank 0. If it is on another machine, each goes through a process of its own, ssh
// with `headroom cluster forward` at its end: rank 0 listens on loopback only.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"headroom/engine/problem"
)

// client returns an HTTP client whose connections all go to a port on a host's loopback.
func (s Shell) client(h Host, port int) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if h.Local() {
			return (&net.Dialer{}).DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		}
		return s.tunnel(h, port)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true,
		DisableCompression: true}}
}

// tunnel is a connection through a process.
type tunnel struct {
	command *exec.Cmd
	io.Reader
	io.WriteCloser
	once sync.Once
}

func (s Shell) tunnel(h Host, port int) (net.Conn, error) {
	c, err := s.command(h, "forward", fmt.Sprint(port))
	if err != nil {
		return nil, err
	}
	return throughProcess(c)
}

// throughProcess starts a command and returns its stdin and stdout as a connection.
func throughProcess(c *exec.Cmd) (net.Conn, error) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return &tunnel{command: c, Reader: out, WriteCloser: in}, nil
}

// Close ends the process.
func (t *tunnel) Close() error {
	t.once.Do(func() {
		_ = t.WriteCloser.Close()
		_ = syscall.Kill(-t.command.Process.Pid, syscall.SIGKILL)
		go func() { _ = t.command.Wait() }()
	})
	return nil
}

// The methods of net.Conn that do nothing here.
func (t *tunnel) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (t *tunnel) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (t *tunnel) SetDeadline(time.Time) error      { return nil }
func (t *tunnel) SetReadDeadline(time.Time) error  { return nil }
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }

// Forward connects in and out to a port on loopback, until either side ends. The error is a
// Problem.
func Forward(ctx context.Context, port int, in io.Reader, out io.Writer) error {
	if port < 1 || port > 65535 {
		return problem.New(problem.BadRequest, fmt.Sprintf("%d is no port", port), "", "")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return problem.Wrap(problem.NotRunning, err, "Nothing listens on the port", "")
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	go func() {
		_, _ = io.Copy(c, in)
		_ = c.Close() // HTTP's clients do not close one side: this one has gone
	}()
	if _, err := io.Copy(out, c); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
