package sched

// Tests of tokens that are known although no logits have chosen them, such as those that a grammar
// forces. A page has 4 positions.

import "testing"

// force appends n tokens to q that follow its last one in any case.
func force(q *Sequence, n int) {
	q.Tokens = append(q.Tokens, make([]int32, n)...)
	q.Ahead += n
}

// TestAhead: known tokens are computed in one step, with the decoded token before them. The
// step after them decodes one token again.
func TestAhead(t *testing.T) {
	s := small(20)
	a := add(s, "a", 2, 0)
	steps(t, s, "a[0,2)+")
	force(a, 3)
	add(s, "b", 7, 0)
	steps(t, s, "a[2,6)+ b[0,3)")
	if a.Ahead != 0 {
		t.Errorf("%d tokens are known, but they have been computed", a.Ahead)
	}
	steps(t, s, "a[6,7)+ b[3,6)")
	force(a, 1)
	force(a, 1) // one after another, as a grammar finds them
	steps(t, s, "a[7,10)+ b[6,7)+")
	counts(t, s, 2, 0, 5) // 10 and 7 positions
}

// TestAheadBeforeTheEnd: while the prompt of a sequence is computed, nothing of it decodes. So a
// sequence with more tokens left than the known ones and one more is a prompt.
func TestAheadBeforeTheEnd(t *testing.T) {
	s := small(20)
	a := add(s, "a", 9, 0)
	steps(t, s, "a[0,8)")
	force(a, 2) // of [8,11) the last two are known
	a.Tokens = append(a.Tokens, 0)
	add(s, "b", 1, 0)
	steps(t, s, "a[8,12)+ b[0,1)+")
}

// TestManyAhead: more known tokens than a decoding sequence may have in a step are computed like a
// prompt, in chunks of 8. Those that decode come first, and limit the chunks.
func TestManyAhead(t *testing.T) {
	for _, c := range []struct {
		known int
		want  []string
	}{
		{8, []string{"a[2,11)+ b[2,3)+", "a[11,12)+ b[3,4)+"}},
		{9, []string{"a[2,11) b[2,3)+", "a[11,12)+ b[3,4)+"}},
		{maxAhead, []string{"a[2,11) b[2,3)+", "b[3,4)+ a[11,14)"}},
		{maxAhead + 1, []string{"b[2,3)+ a[2,5)", "b[3,4)+ a[5,8)"}},
	} {
		s := small(80)
		a := add(s, "a", 2, 0)
		add(s, "b", 2, 0)
		steps(t, s, "a[0,2)+ b[0,2)+")
		force(a, c.known)
		steps(t, s, c.want...)
	}
	s := small(80)
	a := add(s, "a", 2, 0)
	steps(t, s, "a[0,2)+")
	force(a, maxAhead+1)
	steps(t, s, "a[2,10)", "a[10,18)", "a[18,26)")
}

// TestAheadPreempts: known tokens get pages like a decoded one. If there are none, the newest
// sequence is preempted, and its own known tokens are computed again with its prompt.
func TestAheadPreempts(t *testing.T) {
	s := small(5)
	a := add(s, "a", 4, 0)
	b := add(s, "b", 4, 0)
	steps(t, s, "a[0,4)+ b[0,4)+")
	force(b, 2)
	force(a, 8) // 13 positions are 4 pages, and b has the fifth
	steps(t, s, "a[4,13)+")
	if s.Preemptions != 1 || b.running || b.Computed != 0 {
		t.Fatalf("%d preemptions, b runs: %t", s.Preemptions, b.running)
	}
	s.Remove(a, false)
	steps(t, s, "b[0,7)+", "b[7,8)+")
	if b.Ahead != 0 {
		t.Errorf("%d tokens of b are known, but they have been computed", b.Ahead)
	}
}
