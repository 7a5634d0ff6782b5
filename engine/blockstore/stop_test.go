package blockstore

import (
	"errors"
	"testing"
)

// TestStop checks that Stop ends a save between two files, and that the files written before are
// valid.
func TestStop(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(Model{Fingerprint: "f", Format: "q"})
	tokens := numbers(1, 1000)
	q := sequence(tokens, true, 300)
	left := 2
	q.Stop = func() bool { left--; return left < 0 }
	if got := save(t, v, q); got.Blocks != 2 || got.States != 0 || !errors.Is(got.Err, ErrClosed) {
		t.Errorf("saved %+v, expected 2 blocks and %v", got, ErrClosed)
	}
	p := v.Find(tokens, len(tokens), 0, false)
	if err := load(v, tokens, p); err != nil || p.Tokens != 2*BlockTokens {
		t.Errorf("%d tokens found, %v, expected 2 blocks", p.Tokens, err)
	}
}
