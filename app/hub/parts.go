package hub

// The bytes of a file. Large files are fetched in parts over several connections. A part stays in
// memory until the parts before it are written, so that the file is always a prefix. A dropped
// connection costs only the bytes in flight. From a server that ignores ranges, the file is read
// as one stream from the start.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// errNoRanges means that the server ignores range requests.
var errNoRanges = errors.New("the server ignores ranges")

// pending is a part that is being fetched.
type pending struct {
	data []byte
	got  int        // bytes of data that were received
	done chan error // gets one value, when the part is complete or has failed
}

// parts downloads the bytes of the file from offset w.have on, and appends them.
func (c *Client) parts(ctx context.Context, m *remote, w *writer) error {
	err := c.window(ctx, m, w)
	if errors.Is(err, errNoRanges) {
		return c.stream(ctx, m, w)
	}
	return err
}

// window fetches a few parts concurrently and writes them in order. If a part fails, window still
// writes the bytes that it received.
func (c *Client) window(ctx context.Context, m *remote, w *writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var window []*pending
	var free [][]byte
	counted := newCounter(w)
	defer func() {
		cancel()
		for _, p := range window {
			<-p.done
		}
		counted.settle(w)
	}()
	for at := w.have; at < m.Size || len(window) > 0; {
		for at < m.Size && len(window) < c.options.Connections {
			length := min(c.options.PartBytes, m.Size-at)
			p := &pending{done: make(chan error, 1)}
			if n := len(free); n > 0 {
				p.data, free = free[n-1][:length], free[:n-1]
			} else {
				p.data = make([]byte, length, min(c.options.PartBytes, m.Size))
			}
			go func(from int64) {
				var err error
				p.got, err = c.part(ctx, m, from, p.data, counted.add)
				p.done <- err
			}(at)
			window = append(window, p)
			at += length
		}
		p := window[0]
		window = window[1:]
		failed := <-p.done
		if err := w.append(p.data[:p.got]); err != nil || failed != nil {
			return errors.Join(failed, err)
		}
		free = append(free, p.data)
	}
	return nil
}

// part fills data with the file's bytes that start at the offset from, and returns how many bytes
// it received. It calls moved after each read.
func (c *Client) part(ctx context.Context, m *remote, from int64, data []byte,
	moved func(int)) (got int, err error) {
	err = c.retry(ctx, maxFailures, func() (bool, error) {
		start := from + int64(got)
		header := http.Header{}
		whole := start == 0 && int64(len(data)) == m.Size
		if !whole {
			header.Set("Range", fmt.Sprintf("bytes=%d-%d", start, from+int64(len(data))-1))
		}
		before := got
		err := c.read(ctx, m, header, func(a answer, body io.Reader) error {
			if !whole {
				if a.StatusCode != http.StatusPartialContent {
					return errNoRanges
				}
				given := a.Header.Get("Content-Range")
				if first, ok := rangeStart(given); !ok || first != start {
					return c.invalid(fmt.Errorf("it answered a request for bytes from %d with %q",
						start, given))
				}
			}
			for got < len(data) {
				n, err := body.Read(data[got:])
				got += n
				moved(n)
				if err != nil && got < len(data) {
					return broken(unexpectedEnd(err))
				}
			}
			return nil
		})
		return got > before, err
	})
	return got, err
}

// stream appends the rest of a file from a server that always sends the whole file. It skips the
// bytes that the file already has.
func (c *Client) stream(ctx context.Context, m *remote, w *writer) error {
	counted := newCounter(w)
	defer counted.settle(w)
	buffer := make([]byte, 256<<10)
	return c.retry(ctx, maxFailures, func() (bool, error) {
		before := w.have
		err := c.read(ctx, m, nil, func(a answer, body io.Reader) error {
			if _, err := io.CopyN(io.Discard, body, w.have); err != nil {
				return broken(unexpectedEnd(err))
			}
			for {
				n, err := body.Read(buffer)
				if m.Size >= 0 && w.have+int64(n) > m.Size || w.have+int64(n) > maxFileBytes {
					return c.invalid(fmt.Errorf("%s exceeds its expected %d bytes", m.Path, m.Size))
				}
				counted.add(n)
				if err := w.append(buffer[:n]); err != nil {
					return err
				}
				switch {
				case err == io.EOF && m.Size >= 0 && w.have < m.Size:
					return broken(io.ErrUnexpectedEOF)
				case err == io.EOF:
					return nil
				case err != nil:
					return broken(err)
				}
			}
		})
		return w.have > before, err
	})
}

// unexpectedEnd returns io.ErrUnexpectedEOF for io.EOF, and other errors unchanged.
func unexpectedEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read requests the file from the target of the hub's last redirect, and calls use with the body.
// The connection ends when no byte arrives for options.stall.
func (c *Client) read(ctx context.Context, m *remote, header http.Header,
	use func(a answer, body io.Reader) error) error {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(c.options.stall, cancel)
	defer stalled.Stop()
	err := func() error {
		at := m.address()
		a, err := c.request(alive, "GET", at, header)
		if err != nil {
			if at == m.url {
				return err
			}
			m.forget(at) // a redirect expires
			return &temporary{err: err}
		}
		defer a.Body.Close()
		m.remember(a.at)
		return use(a, &stallReader{a.Body, stalled, c.options.stall})
	}()
	if err != nil && alive.Err() != nil && ctx.Err() == nil {
		return &temporary{err: fmt.Errorf("no data for %s", c.options.stall)}
	}
	return err
}

// stallReader restarts the stall timer with each read that returns bytes.
type stallReader struct {
	io.Reader
	stalled *time.Timer
	stall   time.Duration
}

func (w *stallReader) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if n > 0 {
		w.stalled.Reset(w.stall)
	}
	return n, err
}

// address returns the address of the next request for the file.
func (m *remote) address() *url.URL {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at != nil {
		return m.at
	}
	return m.url
}

// remember keeps the target of the hub's redirect for the next requests.
func (m *remote) remember(at *url.URL) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at = at; at == m.url {
		m.at = nil
	}
}

// forget makes the next request go to the hub again.
func (m *remote) forget(at *url.URL) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == at {
		m.at = nil
	}
}

// rangeStart parses the first offset of a Content-Range: "bytes 0-99/200".
func rangeStart(text string) (int64, bool) {
	var first, last int64
	n, err := fmt.Sscanf(text, "bytes %d-%d/", &first, &last)
	return first, n == 2 && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) && first >= 0 &&
		last >= first
}
