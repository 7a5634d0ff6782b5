package logs

// An answer in a terminal is written piece by piece, and a line of the log would come into the
// middle of it. So lines can be held back from the output until the answer is complete.

import (
	"io"
	"sync"
)

// maxHeldBytes bounds what is held back. More than that is an emergency that should be seen.
const maxHeldBytes = 256 << 10

// held has the lines that are held back. The zero value holds nothing back.
type held struct {
	mu     sync.Mutex
	holds  int
	writes []write // in order
	bytes  int
}

// write is a line and where it goes.
type write struct {
	out  io.Writer
	line []byte
}

// Hold holds lines back from the output until release is called, at most 256 KiB of them. They are
// recorded at once. A nil Logs holds nothing back.
func (l *Logs) Hold() (release func()) {
	if l == nil {
		return func() {}
	}
	h := &l.held
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.holds--; h.holds == 0 {
			h.flush()
		}
	})
}

// flush writes what is held back. The caller holds mu.
func (h *held) flush() {
	for _, w := range h.writes {
		_, _ = w.out.Write(w.line)
	}
	h.writes, h.bytes = nil, 0
}

// holdable is an output whose lines can be held back.
type holdable struct {
	out  io.Writer
	held *held
}

// Write writes a line, or holds it back.
func (o holdable) Write(line []byte) (int, error) {
	h := o.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.holds == 0 {
		return o.out.Write(line)
	}
	h.writes = append(h.writes, write{o.out, append([]byte(nil), line...)})
	if h.bytes += len(line); h.bytes > maxHeldBytes {
		h.flush()
	}
	return len(line), nil
}
