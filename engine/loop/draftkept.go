package loop

// What a draft model keeps of requests that have ended, so that the next turn of a conversation
// reads only what is new. The pages of keys and values stay as they are, with the tokens that they
// belong to. A request goes on from the kept sequence of the same key with the longest common
// beginning. Otherwise the speed of drafts would reveal what other keys asked.
//
// A recurrent state or a ring is of use only where its sequence ended, so the request takes over
// the whole sequence, with its slot. Otherwise any common beginning is of use. A request that goes
// on where the sequence ended takes it over. Others share its full pages, which nobody writes.
//
// Memory that a running request needs is taken from the least recently used sequence.

import (
	"slices"

	"headroom/engine/cache"
	"headroom/engine/prefix"
)

// mostKept bounds the kept sequences, since each keeps its tokens.
const mostKept = 16

// keptDraft is the memory of a request that has ended. Its tokens are those that the draft model
// has read. It has a slot if the draft model is Recurrent.
type keptDraft struct {
	owner  string // Request.Owner
	tokens []int32
	pages  []int32
	slot   int32
}

// keepDraftMemory keeps the memory of a request that ends, unless nothing may be kept of it.
func (l *Loop) keepDraftMemory(r *request, reason FinishReason) {
	m, d := l.drafts.chains.model, &r.draftMemory
	if m == nil {
		return
	}
	if reason == FinishError || r.Private || r.NoCache || l.config.Sched.NoPrefixes ||
		!d.held || d.read < cache.PageTokens {
		m.release(r)
		return
	}
	m.keep(r)
}

// keep moves the memory of a request to the kept sequences.
func (m *draftModel) keep(r *request) {
	d := &r.draftMemory
	k := &keptDraft{owner: r.Owner, tokens: r.seq.Tokens[:d.read:d.read], slot: d.slot}
	used := (d.read + cache.PageTokens - 1) / cache.PageTokens
	for _, p := range d.pages[used:] {
		m.pool.Unref(p)
	}
	k.pages = d.pages[:used:used]
	if !m.Recurrent {
		m.slots = append(m.slots, d.slot)
	}
	*d = draftMemory{}
	for i := len(m.kept) - 1; i >= 0; i-- {
		if other := m.kept[i]; m.covers(k, other) {
			m.evict(i)
		}
	}
	m.kept = append(m.kept, k)
	if len(m.kept) > mostKept {
		m.evict(0)
	}
	m.changes++
}

// covers reports whether other is of no use beside k.
func (m *draftModel) covers(k, other *keptDraft) bool {
	n := len(other.tokens)
	return k.owner == other.owner && n <= len(k.tokens) && (n == len(k.tokens) || !m.Recurrent) &&
		prefix.Common(k.tokens, other.tokens) == n
}

// evict frees the i-th kept sequence.
func (m *draftModel) evict(i int) {
	k := m.kept[i]
	for _, p := range k.pages {
		m.pool.Unref(p)
	}
	m.takeKept(k)
	if m.Recurrent {
		m.slots = append(m.slots, k.slot)
	}
}

// takeKept removes a sequence from the kept ones.
func (m *draftModel) takeKept(k *keptDraft) {
	i := slices.Index(m.kept, k)
	m.kept = slices.Delete(m.kept, i, i+1)
	m.changes++
}

// match returns how many of the known tokens of a request need not be read, because they are kept.
// The kept sequences are searched once, and again if they have changed.
func (m *draftModel) match(r *request, known []int32) int {
	d := &r.draftMemory
	if d.held || d.read > 0 {
		return 0
	}
	if d.seen == m.changes {
		return d.matched
	}
	d.seen, d.match, d.matched = m.changes, nil, 0
	for _, k := range m.kept {
		if k.owner != r.Owner {
			continue
		}
		n := prefix.Common(k.tokens, known[:len(known)-1])
		switch whole := n == len(k.tokens); {
		case whole && (m.Recurrent || r.keepsDrafts()):
		case m.Recurrent:
			n = 0
		default:
			n -= n % cache.PageTokens
		}
		if n >= d.matched && n > 0 { // of several, the latest
			d.match, d.matched = k, n
		}
	}
	return d.matched
}

// keepsDrafts reports whether the memory of a request may be kept when it ends.
func (r *request) keepsDrafts() bool { return !r.Private && !r.NoCache }

// resume gives a request the kept memory that match has found.
func (m *draftModel) resume(r *request) {
	d := &r.draftMemory
	k := d.match
	if k == nil || d.held || d.read > 0 {
		return
	}
	d.read, d.wrote, d.match = d.matched, d.matched, nil
	if d.matched < len(k.tokens) || !m.Recurrent && !r.keepsDrafts() {
		for _, p := range k.pages[:d.matched/cache.PageTokens] {
			m.pool.Ref(p)
			d.pages = append(d.pages, p)
		}
		m.takeKept(k)
		m.kept = append(m.kept, k) // the latest used
		return
	}
	m.takeKept(k)
	d.pages = k.pages
	if m.Recurrent {
		d.held, d.slot = true, k.slot
	}
}

// forget drops the kept sequences that are a prefix of tokens or begin with them. m may be nil.
func (m *draftModel) forget(tokens []int32) {
	if m == nil {
		return
	}
	for i := len(m.kept) - 1; i >= 0; i-- {
		k := m.kept[i].tokens
		if prefix.Common(k, tokens) == min(len(k), len(tokens)) {
			m.evict(i)
		}
	}
}
