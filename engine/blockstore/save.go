package blockstore

// The writer is one goroutine that receives sequences from a bounded queue. It writes the entries
// that are not stored yet. Parents come before children, so a crash or a spent budget leaves a
// usable prefix.

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Tensor is a named tensor in pieces of equal length. In the file it is U8 [len(Pieces),
// len(Pieces[0])]. Read skips nil pieces, and the file's pieces after the last one given.
type Tensor struct {
	Name   string
	Pieces [][]byte
}

// State is the recurrent state after Position tokens.
type State struct {
	Position int
	// Tensors returns its tensors. The writer's goroutine calls it, only for a state that is not
	// stored yet. If it returns nil, the save ends with ErrNoPieces.
	Tensors func() []Tensor
}

// Sequence is a sequence to save. Tokens, pieces and states must not change until Done.
type Sequence struct {
	Tokens []int32
	// KV returns the pieces with the keys and values of positions [from, to). from is a multiple
	// of BlockTokens and to-from at most BlockTokens. The writer's goroutine calls it, only for
	// blocks that are not stored yet. If it returns nil, the save ends with ErrNoPieces.
	KV     func(from, to int) []Tensor
	States []State // positions ascending, above 0
	Tail   bool    // also save the tokens after the last full block
	Reused bool    // it resumed a cached prefix, so it is likely to be read again

	Title           string  // display name
	SecondsPerToken float64 // computing time

	// Stop may be nil. The writer's goroutine calls it before each file. If it returns true, the
	// save ends with ErrClosed.
	Stop func() bool
	// Done may be nil. The writer's goroutine calls it exactly once if Save returned true.
	Done func(Saved)
}

// Saved is the result of a save.
type Saved struct {
	Blocks, States int   // written by this save; a tail counts as a block
	Bytes          int64 // of their files
	// Err is nil if all entries are stored. It wraps ErrBudget if a limit did not allow some of
	// them, and ErrClosed if the store was closed or Stop returned true.
	Err error
}

type job struct {
	view *View
	q    Sequence
}

// Save queues a sequence for the writer and never waits. If the queue is full or the store is
// closed, it returns false: the sequence is dropped and counted, and Done is not called.
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

// write is the writer's loop.
func (s *Store) write() {
	defer close(s.written)
	idle := time.NewTimer(syncKeysAfter)
	defer idle.Stop()
	for open := true; open; {
		var j job
		var sync <-chan time.Time
		if s.keysDirty.Load() {
			idle.Reset(syncKeysAfter)
			sync = idle.C
		}
		select {
		case <-sync:
			if err := s.syncKeys(); err != nil {
				s.warnOnce("keys", err)
			}
			continue
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

// saving is the save of one sequence.
type saving struct {
	*View
	q      *Sequence
	chain  []Key
	path   map[Key]bool // entries of this sequence, which must not evict each other
	pin    *pinnedEnd   // end of the pinned conversation that it continues; nil if none
	result Saved
}

func (s *Store) save(j job) Saved {
	w := &saving{View: j.view, q: &j.q, path: map[Key]bool{}}
	err := w.run()
	switch {
	case err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrNoPieces):
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
	if w.pin != nil {
		err = errors.Join(err, w.movePin())
	}
	return err
}

// entries writes the entries that are not stored, and stops at the first error.
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
			return fmt.Errorf("blockstore: a state at position %d follows one at %d in %d tokens: "+
				"positions must ascend within the tokens", s.Position, last, len(q.Tokens))
		}
		last = s.Position
	}
	hasBlock := len(q.Tokens) >= BlockTokens || q.Tail && len(q.Tokens)%BlockTokens > 0
	if hasBlock && q.KV == nil {
		return errors.New("blockstore: Sequence.KV is nil: set it to a function that returns the " +
			"pieces of a block")
	}
	return nil
}

// begin waits until the index is complete, marks the sequence's stored blocks as used, and finds
// the pinned conversation that it continues.
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
		w.pin, err = w.findPin(tx)
		return err
	})
}

// block writes the block or tail with positions [i*BlockTokens, to).
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
	pieces := w.q.KV(from, to)
	if pieces == nil {
		return ErrNoPieces
	}
	n, err := w.store.writeEntry(w, h, pieces)
	if n > 0 {
		w.result.Blocks++
		w.result.Bytes += n
	}
	return err
}

// covered reports whether a block is stored, or whether a stored block or tail begins with the
// tokens of a tail.
func (w *saving) covered(x *index, h *header) (bool, error) {
	if h.kind == kindBlock {
		_, ok, err := x.find.byKey(h.key(w.keys.secret))
		return ok, err
	}
	_, n, err := w.closest(x, w.indexParent(w.chain, h.position/BlockTokens), h.tokens)
	return n == len(h.tokens), err
}

func (w *saving) state(state State) error {
	from := state.Position / BlockTokens * BlockTokens
	h := w.header(kindState, from, state.Position)
	stored := false
	err := w.store.read(func(x *index) (err error) {
		_, stored, err = x.find.byKey(h.key(w.keys.secret))
		return err
	})
	if err != nil || stored {
		return err
	}
	if w.q.Stop != nil && w.q.Stop() {
		return ErrClosed
	}
	pieces := state.Tensors()
	if pieces == nil {
		return ErrNoPieces
	}
	n, err := w.store.writeEntry(w, h, pieces)
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
	w.path[h.key(w.keys.secret)] = true
	return h
}

// cutTitle returns the title as valid UTF-8 of at most maxTitleBytes.
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
