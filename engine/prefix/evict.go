package prefix

// Eviction. Two lists order the nodes and the states by last use. Using a node also uses its
// ancestors, so a walk from the least recently used node visits leaves before their parents.

import (
	"iter"
	"slices"
)

// TakeSlot allocates a slot for a state that is about to be computed. If none is free it evicts the
// least recently used state. SetState or ReturnSlot gives the slot back.
func (t *Tree) TakeSlot() (slot int32, ok bool) {
	if len(t.slots) <= t.withheld && !t.dropState() {
		return -1, false
	}
	slot = t.slots[len(t.slots)-1]
	t.slots = t.slots[:len(t.slots)-1]
	t.fresh = min(t.fresh, len(t.slots))
	return slot, true
}

// TouchedSlots returns how many slots were ever in use at once. The others were never written,
// because the most recently freed slot is taken first.
func (t *Tree) TouchedSlots() int { return len(t.o.Slots) - t.fresh }

// DiscardSlots visits every free slot that was written, and counts it as never written from now on.
func (t *Tree) DiscardSlots(visit func(slot int32)) {
	for _, slot := range t.slots[t.fresh:] {
		visit(slot)
	}
	t.fresh = len(t.slots)
}

// LimitSlots limits how many slots are in use at once, as Pool.SetLimit does for pages. A new tree
// has no limit.
func (t *Tree) LimitSlots(limit int) {
	t.withheld = max(0, min(t.fresh, len(t.o.Slots)-limit))
}

// FreeSlots returns the number of slots that TakeSlot can give without evicting a state.
func (t *Tree) FreeSlots() int { return max(0, len(t.slots)-t.withheld) }

// ReturnSlot frees a slot whose state was not computed.
func (t *Tree) ReturnSlot(slot int32) { t.slots = append(t.slots, slot) }

// dropState evicts the least recently used state that is not held.
func (t *Tree) dropState() bool {
	for e := t.states.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*state); s.held == 0 {
			s.owner.states = slices.Delete(s.owner.states, slices.Index(s.owner.states, s),
				slices.Index(s.owner.states, s)+1)
			t.forget(s)
			return true
		}
	}
	return false
}

func (t *Tree) forget(s *state) {
	t.states.Remove(s.place)
	t.ReturnSlot(s.slot)
}

// Evict removes leaves, least recently used first, until the given number of pages is free or no
// more can be freed. It keeps leaves whose pages a sequence uses.
func (t *Tree) Evict(free Amount) {
	for n := range t.evictables() {
		have := t.pool.Free()
		if have.Covers(free) {
			return
		}
		if have.Start < free.Start || !t.pool.atStart(n.page) {
			// Start pages stay while enough of them are free. Other pages may go in any case: a
			// start page becomes a leaf only after its descendants have been removed.
			t.remove(n)
		}
	}
}

// Trim removes leaves until the pages that only the tree uses take at most limit bytes.
func (t *Tree) Trim(limit int64) {
	surplus := t.Idle().Bytes(t.o.Sizes) - limit
	for n := range t.evictables() {
		if surplus <= 0 {
			return
		}
		surplus -= t.kind(n).Bytes(t.o.Sizes)
		t.remove(n)
	}
}

// evictables iterates over the unused leaves, least recently used first, including nodes that
// become leaves during the iteration.
func (t *Tree) evictables() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for e := t.nodes.Front(); e != nil; {
			n := e.Value.(*node)
			e = e.Next()
			if t.evictable(n) && !yield(n) {
				return
			}
		}
	}
}

// kind returns an Amount of one page, of the same kind as n's page.
func (t *Tree) kind(n *node) Amount {
	if t.pool.atStart(n.page) {
		return Amount{Start: 1}
	}
	return Amount{Rest: 1}
}

// Idle returns the number of pages that only the tree refers to.
func (t *Tree) Idle() (pages Amount) {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*node); t.pool.refs[n.page] == 1 {
			pages = pages.Plus(t.kind(n))
		}
	}
	return pages
}

func (t *Tree) evictable(n *node) bool {
	return len(n.children) == 0 && t.pool.refs[n.page] == 1 &&
		!slices.ContainsFunc(n.states, func(s *state) bool { return s.held > 0 })
}

// Forget removes a conversation: every leaf whose path begins with tokens or is a prefix of tokens,
// and its ancestors that no other conversation shares. Without tokens it removes all conversations.
// Leaves in use stay, with their ancestors.
func (t *Tree) Forget(tokens []int32) {
	var ends []*node
	for n := range t.evictables() {
		if n.within(tokens) {
			ends = append(ends, n)
		}
	}
	for _, n := range ends { // within holds for their ancestors too
		for n.parent != nil && t.evictable(n) {
			t.remove(n)
			n = n.parent
		}
	}
}

// within reports whether tokens is a prefix of the path to n, or the path a prefix of tokens.
func (n *node) within(tokens []int32) bool {
	for ; n.parent != nil; n = n.parent {
		if n.from < len(tokens) {
			if both := min(len(n.tokens), len(tokens)-n.from); Common(n.tokens,
				tokens[n.from:]) < both {
				return false
			}
		}
	}
	return true
}

// Conversations returns the number of leaves.
func (t *Tree) Conversations() (leaves int) {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		if len(e.Value.(*node).children) == 0 {
			leaves++
		}
	}
	return leaves
}

// TrimConversations removes conversations, least recently used first, until at most limit are left
// or the rest is in use. Nodes that other conversations share stay.
func (t *Tree) TrimConversations(limit int) {
	for leaves := t.Conversations(); leaves > limit; {
		n := t.oldestLeaf()
		if n == nil {
			return
		}
		for n.parent != nil && t.evictable(n) {
			t.remove(n)
			n = n.parent
		}
		if n.parent == nil || len(n.children) > 0 { // otherwise n is a leaf now, and in use
			leaves--
		}
	}
}

// oldestLeaf returns the leaf to evict next, or nil if none can be evicted.
func (t *Tree) oldestLeaf() *node {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*node); t.evictable(n) {
			return n
		}
	}
	return nil
}

// handOver moves a state of n, which is being removed, to a sibling with the same tokens up to the
// state's position. Conversations that share a system prompt often diverge inside a page. If there
// is no such sibling, the state is evicted.
func (t *Tree) handOver(n *node, s *state) {
	for _, c := range n.parent.children[n.tokens[0]] {
		if c == n || Common(c.tokens, n.tokens) < s.position-n.from {
			continue
		}
		if slices.ContainsFunc(c.states,
			func(own *state) bool { return own.position == s.position }) {
			break
		}
		s.owner = c
		c.states = append(c.states, s)
		return
	}
	t.forget(s)
}

func (t *Tree) remove(n *node) {
	for _, s := range n.states {
		t.handOver(n, s)
	}
	siblings := n.parent.children[n.tokens[0]]
	siblings = slices.Delete(siblings, slices.Index(siblings, n), slices.Index(siblings, n)+1)
	if len(siblings) == 0 {
		delete(n.parent.children, n.tokens[0])
	} else {
		n.parent.children[n.tokens[0]] = siblings
	}
	t.nodes.Remove(n.place)
	t.pool.Unref(n.page)
}
