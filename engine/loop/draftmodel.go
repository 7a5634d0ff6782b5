package loop

// A draft model: a smaller model with the same vocabulary, which drafts in place of the model's own
// block (chain.go). It runs on the same device, between passes, and has memory of its own: pages
// and slots for the sequences that it drafts for. What it has read of a request that has ended is
// kept for the next turn (draftkept.go).
//
// It reads what it has not read yet in pieces, before it drafts. A piece is short, so that other
// sequences do not wait. Its time counts: a sequence is read only if its drafts are expected to
// save more time than that takes. How long an answer will be is not known. It is expected to go on
// for as long as it already has.
//
// What it wrote for a wrong draft is overwritten, like the model's own. A recurrent state cannot go
// back. Such a draft model drafts in a copy of the state, and later reads the tokens that were
// right.

import (
	"slices"
	"time"

	"headroom/engine/cache"
	"headroom/engine/draft"
	"headroom/engine/prefix"
	"headroom/engine/runner"
	"headroom/kernels"
)

// DraftModel is a smaller model that drafts for that of a loop. Runner, Tokens and ContextTokens
// are required.
type DraftModel struct {
	Runner *runner.Runner
	Name   string // in logs
	// Tokens is how many tokens, the first ones, its vocabulary has in common with the model's.
	Tokens        int
	ContextTokens int // longest sequence
	Pages         int // of the Runner
	// Slots is how many sequences it drafts for at once. If it has recurrent States, the Runner has
	// twice as many slots, for copies.
	Slots  int
	States bool
	// Recurrent means that a sequence can go on only where it ended, because of States or rings.
	Recurrent bool
	// PieceTokens is the maximum number of tokens that it reads before a pass. The Runner has room
	// for Slots tokens more. 0: 256.
	PieceTokens int
	Drafts      int // maximum number of drafts in a pass; 0: draft.MaxTokens
	// Step is how long a step of it is expected to take before that is measured, in passes of the
	// large model; 0: not known.
	Step float64
}

const (
	// leastPiece bounds a piece from below where reading is slow.
	leastPiece = 64
	// trialReading is the maximum number of tokens that are read for a trial.
	trialReading = 1024
	// manyRows tells a pass that reads from one that drafts.
	manyRows = 16
)

// draftModel is a DraftModel with its state in the loop.
type draftModel struct {
	DraftModel
	pool    *prefix.Pool
	vocab   int          // of the large model
	slots   []int32      // free
	kept    []*keptDraft // least recently used first
	changes int          // of kept
	reading float64      // seconds to read a token; 0: not measured
	left    int          // tokens that may still be read before this pass
	rows    int          // that it has computed, for tests

	logitRows []int32 // memory of step
	taken     []bool  // memory of canReserve, for each page
}

// draftMemory is what a draft model keeps of a sequence. The zero value is that of an unknown one.
type draftMemory struct {
	held  bool // slot is the sequence's
	slot  int32
	pages []int32
	read  int // it has read the first tokens, of which all are true
	wrote int // it has also read drafts after these, up to here
	piece int // tokens that it reads before this pass, without drafting

	// What match has found, when draftModel.changes was seen. match is nil once it is used.
	match         *keptDraft
	matched, seen int
}

// newDraftModel returns nil for nil.
func newDraftModel(d *DraftModel, vocab int) *draftModel {
	if d == nil {
		return nil
	}
	m := &draftModel{DraftModel: *d, vocab: vocab, pool: prefix.NewPool(d.Pages, prefix.Start{})}
	if m.PieceTokens <= 0 {
		m.PieceTokens = 256
	}
	if m.Drafts <= 0 {
		m.Drafts = draft.MaxTokens
	}
	for i := m.Slots - 1; i >= 0; i-- {
		m.slots = append(m.slots, int32(i))
	}
	return m
}

// begin begins the planning of a pass. A piece takes at most half of stall.
func (m *draftModel) begin(stall time.Duration) {
	m.left = m.PieceTokens
	if m.reading > 0 {
		m.left = max(leastPiece, min(m.left, int(stall.Seconds()/2/m.reading)))
		m.left = min(m.left, m.PieceTokens)
	}
}

// unread returns how many tokens it has to read before the last known one. known are the tokens of
// the sequence. It is -1 if the draft model cannot draft for it.
func (m *draftModel) unread(r *request, known []int32) int {
	if len(known) >= m.ContextTokens {
		return -1
	}
	read := min(max(r.draftMemory.read, m.match(r, known)), len(known)-1)
	if m.Tokens < m.vocab && slices.ContainsFunc(known[read:],
		func(t int32) bool { return int(t) >= m.Tokens }) {
		return -1
	}
	return len(known) - 1 - read
}

// prepareDraftModel reserves memory for the known tokens of a request and drafts. It reports
// whether the draft model can draft before this pass. If not, it reads a piece instead, if memory
// allows. It cannot if the kept memory that unread relies on has been taken since.
func (l *Loop) prepareDraftModel(r *request, unread, drafts int) bool {
	m, d := l.drafts.chains.model, &r.draftMemory
	taken := d.match != nil && d.seen != m.changes
	r.why = draft.Why{Cause: draft.Reading} // if it cannot
	if unread > 0 && m.left < 1 || taken {
		return false
	}
	if !l.reserve(r, len(r.seq.Tokens)+drafts) {
		r.why.Cause = draft.DraftMemory
		return false
	}
	d.read = len(r.seq.Tokens) - 1 - unread
	if unread > m.left {
		d.piece, m.left = m.left, 0
		return false
	}
	m.left -= unread
	return true
}

// reserve gives a request a slot of the draft model and pages for so many tokens: those that are
// kept for it, and if need be those kept for others, or of a request that waits. It reports whether
// there were enough.
func (l *Loop) reserve(r *request, tokens int) bool {
	m, d := l.drafts.chains.model, &r.draftMemory
	m.resume(r)
	need := (tokens + cache.PageTokens - 1) / cache.PageTokens
	if need > m.pool.Free().Rest+m.pool.Used().Rest {
		return false
	}
	enough := func() bool {
		return (d.held || len(m.slots) > 0) && m.pool.Free().Rest >= need-len(d.pages)
	}
	if !enough() && !l.canReserve(r, need) {
		return false
	}
	for len(m.kept) > 0 && !enough() {
		m.evict(0)
	}
	for _, other := range l.requests {
		if enough() {
			break
		}
		if other != r && other.seq.Slot < 0 {
			m.release(other)
		}
	}
	if !enough() {
		return false
	}
	if !d.held {
		d.held, d.slot = true, m.slots[len(m.slots)-1]
		m.slots = m.slots[:len(m.slots)-1]
	}
	for len(d.pages) < need {
		d.pages = append(d.pages, m.pool.Alloc(len(d.pages)))
	}
	return true
}

// canReserve reports whether a request could hold so many pages and a slot, if all kept memory and
// that of waiting requests were given up. Otherwise giving it up would be for nothing.
func (l *Loop) canReserve(r *request, need int) bool {
	m := l.drafts.chains.model
	if m.taken == nil {
		m.taken = make([]bool, m.pool.Pages())
	}
	clear(m.taken)
	for _, p := range r.draftMemory.pages {
		m.taken[p] = true
	}
	slots := m.Slots
	for _, other := range l.requests {
		if other == r || other.seq.Slot < 0 {
			continue
		}
		if other.draftMemory.held {
			slots--
		}
		for _, p := range other.draftMemory.pages {
			if !m.taken[p] { // pages of a prefix that several share count once
				m.taken[p], need = true, need+1
			}
		}
	}
	return slots > 0 && need <= m.pool.Free().Rest+m.pool.Used().Rest
}

// release frees what the draft model keeps of a request.
func (m *draftModel) release(r *request) {
	d := &r.draftMemory
	for _, p := range d.pages {
		m.pool.Unref(p)
	}
	if d.held {
		m.slots = append(m.slots, d.slot)
	}
	*d = draftMemory{pages: d.pages[:0]}
}

// releaseDraftModel frees what the draft model keeps of running requests, after a step that failed.
func (l *Loop) releaseDraftModel() {
	if m := l.drafts.chains.model; m != nil {
		for _, r := range l.requests {
			m.release(r)
		}
	}
}

// gatherPieces adds the pieces that are read before a pass, without drafting.
func (l *Loop) gatherPieces() {
	c := &l.drafts.chains
	for _, r := range l.requests {
		d := &r.draftMemory
		if d.piece == 0 {
			continue
		}
		c.addSpan(d, r.seq.Tokens[d.read:][:d.piece], d.read)
		d.read, d.piece = d.read+d.piece, 0
		d.wrote = d.read
	}
}

// addSpan adds tokens of a sequence, from a position on, to the draft model's next step.
func (c *chains) addSpan(d *draftMemory, tokens []int32, position int) {
	c.spans = append(c.spans, kernels.Span{Row: len(c.tokens), Rows: len(tokens), Pos: position,
		Pages: d.pages, Slot: d.slot, Prefill: len(tokens) - 1})
	c.tokens = append(c.tokens, tokens...)
}

// stepDraftModel drafts one token of each active sequence, from the common vocabulary. It returns
// the runner that has them; nil: there was nothing to do. At step 0 it also reads what it has not
// read yet, and pieces.
func (l *Loop) stepDraftModel(step int) (by *runner.Runner, err error) {
	c, m := &l.drafts.chains, l.drafts.chains.model
	c.tokens, c.spans, m.logitRows = c.tokens[:0], c.spans[:0], m.logitRows[:0]
	for _, a := range c.active {
		q, d := a.work.Seq, &a.work.Seq.Owner.(*request).draftMemory
		from, to := a.work.From+step, a.work.From+step+1
		if step == 0 {
			from = d.read
		}
		c.addSpan(d, q.Tokens[from:to], from)
		if s := &c.spans[len(c.spans)-1]; step > 0 && m.States {
			s.Slot += int32(m.Slots)
		}
		m.logitRows = append(m.logitRows, int32(len(c.tokens)-1))
		if d.wrote = to; step == 0 {
			d.read = to
		}
	}
	if step == 0 {
		l.gatherPieces()
	}
	if len(c.tokens) == 0 {
		return nil, nil
	}
	m.rows += len(c.tokens)
	if err := m.Runner.StepDrafts(c.tokens, c.spans, m.logitRows, m.Tokens); err != nil {
		return nil, err
	}
	if step == 0 && m.States {
		for _, a := range c.active {
			slot := a.work.Seq.Owner.(*request).draftMemory.slot
			m.Runner.CopyState(slot, slot+int32(m.Slots))
		}
	}
	return m.Runner, nil
}

// observe records the duration of a step with so many rows, and returns how many seconds such steps
// take on average.
func (m *draftModel) observe(times *draft.Times, rows int, took time.Duration) (usual float64) {
	if rows <= manyRows {
		times.Observe(rows, took.Seconds())
		return times.Seconds(rows)
	}
	perToken := took.Seconds() / float64(rows)
	if m.reading == 0 {
		m.reading = perToken
	}
	m.reading += (perToken - m.reading) / 4
	return m.reading * float64(rows)
}

// accept records that the n-th draft of a pass was right: what the draft model wrote for it stays.
// m may be nil.
func (m *draftModel) accept(r *request) {
	d := &r.draftMemory
	if m != nil && !m.States {
		d.read = min(d.read+1, d.wrote)
	}
}
