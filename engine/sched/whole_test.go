package sched

import "testing"

// TestWholePrompts checks that no prompt is divided, that as many as fit are in a step, and that
// the order of arrival stays.
func TestWholePrompts(t *testing.T) {
	s := New(Options{Pages: 100, PageTokens: 32, Slots: 8, ChunkTokens: 100, MixedChunkTokens: 100,
		NoPrefixes: true, WholePrompts: true})
	var all []*Sequence
	for _, n := range []int{60, 30, 50, 10, 100, 1} {
		q := &Sequence{Tokens: make([]int32, n), Slot: -1, Whole: true, NoCache: true}
		all = append(all, q)
		s.Add(q)
	}
	for _, want := range [][]int{{0, 1}, {2, 3}, {4}, {5}} {
		work := append([]Work(nil), s.Next()...)
		if len(work) != len(want) {
			t.Fatalf("%d works, expected the sequences %v", len(work), want)
		}
		for i, w := range work {
			if w.Seq != all[want[i]] || w.From != 0 || w.To != len(w.Seq.Tokens) {
				t.Errorf("work %d to %d of another sequence than %d", w.From, w.To, want[i])
			}
			s.Advance(w)
			s.Remove(w.Seq, false)
		}
	}
	if left := s.Next(); len(left) != 0 {
		t.Errorf("%d works are left", len(left))
	}
}
