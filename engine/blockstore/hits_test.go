package blockstore

import (
	"slices"
	"testing"
)

// TestSharedHits checks that a Load of a shared prefix counts as a hit of every conversation that
// shares it.
func TestSharedHits(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v := s.Model(Model{Fingerprint: "f", Format: "q"})
	a := numbers(1, 600)
	b := slices.Concat(a[:400], numbers(5000, 200))
	save(t, v, sequence(a, true, 300))
	save(t, v, sequence(b, true, 300))
	p := v.Find(b, 350, 0, true)
	if err := load(v, b, p); err != nil || p.Tokens != 300 {
		t.Fatalf("%d tokens, %v, expected the state at 300", p.Tokens, err)
	}
	list, err := s.Conversations(Filter{})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d conversations, %v", len(list), err)
	}
	for _, c := range list {
		if c.Hits != 1 || c.LastHit.IsZero() || c.SecondsSaved != 3 { // 300 tokens at 0.01 s
			t.Errorf("%d tokens: %d hits, the last %v, %g s saved, expected 1 now and 3 s",
				c.Tokens, c.Hits, c.LastHit, c.SecondsSaved)
		}
	}
}
