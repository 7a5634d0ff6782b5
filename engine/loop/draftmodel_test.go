package loop

import (
	"slices"
	"testing"
	"time"

	"headroom/engine/draft"
	"headroom/engine/prefix"
	"headroom/engine/sched"
)

// TestDraftModelAccept: after drafts, the draft model has read the last token and the drafts that
// were right, as far as it has computed them. With a recurrent state it has read the last token.
func TestDraftModelAccept(t *testing.T) {
	for _, c := range []struct {
		states      bool
		right, want int
	}{{false, 0, 11}, {false, 2, 13}, {false, 3, 14}, {false, 4, 14}, {true, 0, 11},
		{true, 4, 11}} {
		m := &draftModel{DraftModel: DraftModel{States: c.states}}
		// Token 10 was the last one. Of the 4 drafts after it, the last one was not computed.
		r := &request{requestDrafts: requestDrafts{draftMemory: draftMemory{read: 11, wrote: 14}}}
		for range c.right {
			m.accept(r)
		}
		if r.read != c.want {
			t.Errorf("states %t, %d right: %d tokens read, expected %d", c.states, c.right, r.read,
				c.want)
		}
	}
}

// TestDraftModelReserve: a request gets memory that is free, or that of one that waits, and never
// that of a running one.
func TestDraftModelReserve(t *testing.T) {
	running, waiting, other := &request{}, &request{}, &request{}
	waiting.seq.Slot = -1
	l := &Loop{requests: []*request{running, waiting, other}}
	m := &draftModel{pool: prefix.NewPool(4, prefix.Start{}), slots: []int32{2, 1, 0}}
	m.Slots, l.drafts.chains.model = 3, m
	waiting.read = 32
	for i, c := range []struct {
		r      *request
		tokens int
		want   bool
		free   int
	}{
		{running, 33, true, 2},  // 2 pages
		{running, 64, true, 2},  // the same
		{waiting, 32, true, 1},  // 1 page
		{other, 64, true, 0},    // those of waiting
		{other, 65, false, 0},   // that of running stays
		{running, 65, false, 0}, // and those of other
	} {
		if got := l.reserve(c.r, c.tokens); got != c.want || m.pool.Free().Rest != c.free {
			t.Errorf("%d: %t with %d pages free, expected %t with %d", i, got, m.pool.Free().Rest,
				c.want, c.free)
		}
	}
	if waiting.held || waiting.read != 0 {
		t.Errorf("%+v, expected to have lost its memory", waiting.draftMemory)
	}
	m.release(running)
	m.release(other)
	if err := m.checkIdle(); err != nil {
		t.Error(err)
	}
}

// TestReserveEvictsForUse: kept memory is not given up for a request that would still lack pages,
// because a running one holds them.
func TestReserveEvictsForUse(t *testing.T) {
	m := &draftModel{pool: prefix.NewPool(6, prefix.Start{}), slots: []int32{2, 1, 0}}
	m.Slots, m.ContextTokens, m.left = 3, 400, 256
	l := &Loop{}
	l.drafts.chains.model = m
	running, ended, next := &request{}, &request{}, &request{}
	for _, r := range []*request{running, ended, next} {
		r.seq.Tokens = make([]int32, 200)
	}
	l.requests = []*request{running, next}
	if !l.reserve(running, 128) || !l.reserve(ended, 64) { // 4 pages and 2
		t.Fatal("no memory")
	}
	ended.seq.Tokens[0], ended.read = 7, 64
	l.keepDraftMemory(ended, FinishStop)
	for _, c := range []struct {
		tokens int
		want   bool
		kept   int
	}{{192, false, 1}, {65, false, 1}, {64, true, 0}} {
		if got := l.reserve(next, c.tokens); got != c.want || len(m.kept) != c.kept {
			t.Errorf("%d tokens: %t with %d kept, expected %t with %d", c.tokens, got,
				len(m.kept), c.want, c.kept)
		}
	}
}

// TestDraftModelPieces: a piece takes at most half of the time for which others may wait.
func TestDraftModelPieces(t *testing.T) {
	m := &draftModel{DraftModel: DraftModel{PieceTokens: 256}}
	for _, c := range []struct {
		perToken float64
		want     int
	}{{0, 256}, {0.0001, 256}, {0.001, 125}, {0.1, leastPiece}} {
		m.reading = c.perToken
		if m.begin(250 * time.Millisecond); m.left != c.want {
			t.Errorf("%g s per token: pieces of %d, expected %d", c.perToken, m.left, c.want)
		}
	}
}

// TestDraftModelShare: of the sequences that have something to read, the first take the piece. One
// that has been read drafts meanwhile.
func TestDraftModelShare(t *testing.T) {
	m := &draftModel{pool: prefix.NewPool(100, prefix.Start{}), slots: []int32{3, 2, 1, 0}}
	m.Slots, m.left = 4, 256
	l := &Loop{}
	l.drafts.chains.model = m
	for i, c := range []struct {
		unread, piece int
		want          bool
	}{{56, 0, true}, {500, 200, false}, {1, 0, false}, {0, 0, true}} {
		r := &request{}
		r.seq.Tokens = make([]int32, 600)
		l.requests = append(l.requests, r)
		got := l.prepareDraftModel(r, c.unread, 3)
		if got != c.want || r.piece != c.piece || got && r.read != 599-c.unread {
			t.Errorf("%d: drafts %t, reads %d after %d, expected %t, %d", i, got, r.piece, r.read,
				c.want, c.piece)
		}
	}
}

// TestDraftModelUnread: a sequence that is too long, or has a token that the draft model lacks, has
// no drafts of it.
func TestDraftModelUnread(t *testing.T) {
	r := &request{seq: sched.Sequence{}}
	r.read = 3
	m := &draftModel{DraftModel: DraftModel{ContextTokens: 8, Tokens: 100}, vocab: 200}
	for _, c := range []struct {
		known []int32
		want  int
	}{{make([]int32, 4), 0}, {make([]int32, 7), 3}, {make([]int32, 8), -1},
		{[]int32{100, 100, 100, 99, 99}, 1}, {[]int32{0, 0, 0, 99, 100}, -1}} {
		if got := m.unread(r, c.known); got != c.want {
			t.Errorf("%d tokens: %d unread, expected %d", len(c.known), got, c.want)
		}
	}
}

// TestDraftModelMatch: what is kept need not be read, and the cost of a trial counts the rest
// alone. A recurrent draft model goes on only where a sequence ended. What is kept of another key
// is of no use.
func TestDraftModelMatch(t *testing.T) {
	tokens := make([]int32, 100)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	fork := slices.Concat(tokens[:70], []int32{7, 7})
	for _, c := range []struct {
		recurrent, private bool
		known              []int32
		unread             int
		left               int // kept sequences, once the request has its memory
		owner              string
	}{
		{false, false, tokens, 9, 0, ""},            // goes on where the kept one ended
		{true, false, tokens, 9, 0, ""},             // the same
		{false, true, tokens, 99 - 64, 1, ""},       // shares its full pages
		{false, false, fork, 71 - 64, 1, ""},        // the same
		{true, false, fork, 71, 1, ""},              // reads all
		{false, false, tokens[5:], 94, 1, ""},       // the same
		{false, false, tokens[:90], 89 - 64, 1, ""}, // all but the last one are kept
		{false, false, tokens, 99, 1, "key"},        // reads all
	} {
		m := &draftModel{pool: prefix.NewPool(20, prefix.Start{}), slots: []int32{1, 0}}
		m.Slots, m.ContextTokens, m.Recurrent, m.left = 2, 200, c.recurrent, 256
		l := &Loop{}
		l.drafts.chains.model = m
		first := &request{}
		first.seq.Tokens = tokens
		l.reserve(first, 100)
		first.read = 90
		l.keepDraftMemory(first, FinishStop)
		r := &request{Request: Request{Private: c.private, Owner: c.owner}}
		r.seq.Tokens = c.known
		if got := m.unread(r, c.known); got != c.unread {
			t.Errorf("%+v: %d unread", c, got)
		}
		m.reading = 1
		round := &draft.Round{Passes: &draft.Times{}, Drafter: &draft.Times{}}
		if got, want := round.Trial(m.unread(r, c.known), m.reading),
			round.Trial(c.unread, 1); got != want {
			t.Errorf("%+v: a trial takes %g, expected %g", c, got, want)
		}
		if !l.prepareDraftModel(r, c.unread, 3) || r.read != len(c.known)-1-c.unread ||
			len(m.kept) != c.left {
			t.Errorf("%+v: %+v with %d kept", c, r.draftMemory, len(m.kept))
		}
		l.keepDraftMemory(r, FinishError)
		if err := m.checkIdle(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestDraftModelKeptTaken: what a request was to go on from may be gone before it has its memory.
func TestDraftModelKeptTaken(t *testing.T) {
	m := &draftModel{pool: prefix.NewPool(4, prefix.Start{}), slots: []int32{1, 0}}
	m.Slots, m.ContextTokens, m.left = 2, 200, 256
	l := &Loop{}
	l.drafts.chains.model = m
	first, second, other := &request{}, &request{}, &request{}
	for _, r := range []*request{first, second, other} {
		r.seq.Tokens = make([]int32, 70)
	}
	l.reserve(first, 70)
	first.read = 64
	l.keepDraftMemory(first, FinishStop)
	if got := m.unread(second, second.seq.Tokens); got != 5 {
		t.Fatalf("%d unread, expected 5", got)
	}
	if !l.reserve(other, 128) || len(m.kept) != 0 {
		t.Fatal("the kept memory was not given to a request that needs it")
	}
	if l.prepareDraftModel(second, 5, 3) || second.read != 0 {
		t.Errorf("%+v goes on from memory that was taken", second.draftMemory)
	}
	if got := m.unread(second, second.seq.Tokens); got != 69 {
		t.Errorf("%d unread, expected all", got)
	}
	m.pool = prefix.NewPool(3*mostKept, prefix.Start{})
	m.slots, other.draftMemory = []int32{1, 0}, draftMemory{}
	for i := range 3 * mostKept {
		r := &request{}
		r.seq.Tokens = []int32{int32(i)}
		if !l.reserve(r, 1) {
			t.Fatal("no memory")
		}
		r.read = 1
		m.keep(r)
	}
	if len(m.kept) != mostKept {
		t.Errorf("%d sequences are kept, expected %d", len(m.kept), mostKept)
	}
}
