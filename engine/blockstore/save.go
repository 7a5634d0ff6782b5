package blockstore

// The writer: one goroutine that takes sequences from a bounded queue and writes those of their
// entries that are not stored yet, parents before children, so that what a crash or a spent budget
// leaves behind is whole from the front.

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Tensor is named bytes in pieces of one length, in a file U8 [len(Pieces), len(Pieces[0])]. When
// loading, a nil piece is skipped, as are pieces that the file has beyond len(Pieces).
type Tensor struct {
	Name   string
	Pieces [][]byte
}

// State is the recurrent state after Position tokens.
type State struct {
	Position int
	Tensors  []Tensor
}

// Sequence is what Save takes. Tokens, pieces and states must stay as they are until Done.
type Sequence struct {
	Tokens []int32
	// KV is the pieces that hold positions [from, to), from a multiple of BlockTokens and to at
	// most BlockTokens behind it. It is called on the writer's goroutine, only for what is not
	// stored yet.
	KV     func(from, to int) []Tensor
	States []State // positions ascending, above 0
	Tail   bool    // also what lies behind the last full block
	// it went on from a stored or remembered prefix, so it is likely to be read again
	Reused bool

	Title           string  // for people
	SecondsPerToken float64 // what computing it cost

	// nil, or asked before each file, on the writer's goroutine: true ends the work on this
	// sequence with ErrClosed
	Stop func() bool
	Done func(Saved) // nil, or called exactly once if Save said true, on the writer's goroutine
}

// Saved is what Save came to.
type Saved struct {
	Blocks, States int   // written now; a tail counts as a block
	Bytes          int64 // of their files
	// Err is why some are missing, nil if none is: wraps ErrBudget where a limit forbade them,
	// ErrClosed where the store was closed before.
	Err error
}

type job struct {
	view *View
	q    Sequence
}

// Save queues a sequence to be written. It never waits: false means that the queue is full or the
// store closed, the sequence was dropped and counted, and Done will not be called.
func (v *View) Save(q Sequence) bool {
	s := v.store
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	if !s.closed {
		select {
		case s.queue <- job{v, q}:
			return true
		default:
		}
	}
	s.count("dropped", 1)
	return false
}

// write is the writer's goroutine.
func (s *Store) write() {
	defer close(s.written)
	for open := true; open; {
		var j job
		select {
		case j, open = <-s.queue:
			if open {
				saved := s.save(j)
				if j.q.Done != nil {
					j.q.Done(saved)
				}
			}
		case <-s.wake:
		}
		s.flush()
	}
}

// saving is one sequence on its way to disk.
type saving struct {
	*View
	q      *Sequence
	chain  []Key
	path   map[Key]bool // the sequence's own entries: not evicted for each other
	grows  *pinnedEnd   // the pinned conversation that it goes on, nil if none
	result Saved
}

func (s *Store) save(j job) Saved {
	w := &saving{View: j.view, q: &j.q, path: map[Key]bool{}}
	err := w.run()
	switch {
	case err == nil || errors.Is(err, ErrClosed):
	case errors.Is(err, ErrBudget):
		s.count("skipped", 1)
	default:
		s.saveFailed(err)
	}
	w.result.Err = err
	return w.result
}

func (w *saving) run() error {
	if err := w.q.check(); err != nil {
		return err
	}
	w.chain = w.keys.chain(w.q.Tokens)
	if err := w.begin(); err != nil {
		return err
	}
	err := w.entries()
	if w.grows != nil {
		err = errors.Join(err, w.movePin())
	}
	return err
}

// entries writes what is not stored, up to the first that cannot be.
func (w *saving) entries() error {
	states := w.q.States
	for i := 0; i*BlockTokens < len(w.q.Tokens); i++ {
		to := min((i+1)*BlockTokens, len(w.q.Tokens))
		if i < len(w.chain) || w.q.Tail {
			if err := w.block(i, to); err != nil {
				return err
			}
		}
		for ; len(states) > 0 && states[0].Position <= to; states = states[1:] {
			if err := w.state(states[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Sequence) check() error {
	last := 0
	for _, s := range q.States {
		if s.Position <= last || s.Position > len(q.Tokens) {
			return fmt.Errorf(
				"blockstore: a state at position %d behind one at %d of %d tokens: give them "+
					"ascending, within the tokens",
				s.Position, last, len(q.Tokens))
		}
		last = s.Position
	}
	if len(q.Tokens) >= BlockTokens && q.KV == nil || q.Tail && len(q.Tokens)%BlockTokens > 0 &&
		q.KV == nil {
		return errors.New(
			"blockstore: a sequence without KV: set it to a function that returns the pieces of " +
				"a " +
				"block")
	}
	return nil
}

// begin waits until the folder's files are known, marks what is stored of the sequence as used, and
// looks whether it is pinned.
func (w *saving) begin() error {
	s := w.store
	if err := s.waitAdopted(); err != nil {
		return err
	}
	return s.change(func(tx *sql.Tx) error {
		clock, err := tick(tx)
		for i := 0; i < len(w.chain) && err == nil; i++ {
			w.path[w.chain[i]] = true
			_, err = tx.Exec("UPDATE entries SET used = ? WHERE key = ?", clock, w.chain[i][:])
		}
		if err != nil {
			return err
		}
		w.grows, err = w.findPin(tx)
		return err
	})
}

// block writes block i, or the tail, whose last position is before to.
func (w *saving) block(i, to int) error {
	from, kind := i*BlockTokens, kindBlock
	if to-from < BlockTokens {
		kind = kindTail
	}
	h := w.header(kind, from, to)
	h.seconds = w.q.SecondsPerToken * float64(to-from)
	covered := false
	err := w.store.read(func(x *index) (err error) {
		covered, err = w.covered(x, h)
		return err
	})
	if err != nil || covered {
		return err
	}
	if w.q.Stop != nil && w.q.Stop() {
		return ErrClosed
	}
	n, err := w.store.writeEntry(w, h, w.q.KV(from, to))
	if n > 0 {
		w.result.Blocks++
		w.result.Bytes += n
	}
	return err
}

// covered says whether a block is stored, or a tail or something longer that begins with it.
func (w *saving) covered(x *index, h *header) (bool, error) {
	if h.kind == kindBlock {
		_, ok, err := x.find.byKey(h.key())
		return ok, err
	}
	_, n, err := x.find.closest(w.behind(w.chain, h.position/BlockTokens), h.tokens)
	return n == len(h.tokens), err
}

func (w *saving) state(state State) error {
	from := state.Position / BlockTokens * BlockTokens
	h := w.header(kindState, from, state.Position)
	stored := false
	err := w.store.read(func(x *index) (err error) {
		_, stored, err = x.find.byKey(h.key())
		return err
	})
	if err != nil || stored {
		return err
	}
	if w.q.Stop != nil && w.q.Stop() {
		return ErrClosed
	}
	n, err := w.store.writeEntry(w, h, state.Tensors)
	if n > 0 {
		w.result.States++
		w.result.Bytes += n
	}
	return err
}

func (w *saving) header(k kind, from, to int) *header {
	h := &header{
		kind: k, fingerprint: w.model.Fingerprint, format: w.model.Format, model: w.model.Name,
		parent: parentAt(w.chain, from/BlockTokens), position: from, title: cutTitle(w.q.Title),
		created: w.store.o.now(), tokens: w.q.Tokens[from:to],
	}
	w.path[h.key()] = true
	return h
}

// cutTitle makes a title short and valid.
func cutTitle(title string) string {
	title = strings.ToValidUTF8(title, "\uFFFD")
	if len(title) <= maxTitleBytes {
		return title
	}
	n := maxTitleBytes
	for !utf8.RuneStart(title[n]) {
		n--
	}
	return title[:n]
}
