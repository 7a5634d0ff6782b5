package prefix

// What is forgotten first. Nodes and states lie in two lists by their last use. Using a node uses
// all above it, so whoever walks the nodes from the oldest meets leaves before their parents, and
// what is left is always a prefix of something.

import (
	"iter"
	"slices"
)

// TakeSlot finds a slot for a state that is about to be computed, giving up the one unused longest
// if it must. It goes back by SetState or ReturnSlot.
func (t *Tree) TakeSlot() (slot int32, ok bool) {
	if len(t.slots) == 0 && !t.dropState() {
		return -1, false
	}
	slot = t.slots[len(t.slots)-1]
	t.slots = t.slots[:len(t.slots)-1]
	return slot, true
}

// ReturnSlot gives back a slot whose state was not computed.
func (t *Tree) ReturnSlot(slot int32) { t.slots = append(t.slots, slot) }

// dropState gives up the state that was used longest ago and that nobody reads.
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

// Evict gives up leaves, the longest unused first, until so many pages are free or nothing can be
// freed. Pages that a sequence uses as well do not become free; their leaves are left alone.
func (t *Tree) Evict(free Amount) {
	for n := range t.evictables() {
		have := t.pool.Free()
		if have.Covers(free) {
			return
		}
		if have.Start < free.Start || !t.pool.atStart(n.page) {
			// a page of the start is free only when all behind it is
			t.remove(n)
		}
	}
}

// Trim gives up leaves until the tree alone holds at most so many bytes.
func (t *Tree) Trim(most int64) {
	surplus := t.Idle().Bytes(t.o.Sizes) - most
	for n := range t.evictables() {
		if surplus <= 0 {
			return
		}
		surplus -= t.kind(n).Bytes(t.o.Sizes)
		t.remove(n)
	}
}

// evictables are the leaves that nobody uses, the longest unused first. Those that become leaves
// meanwhile are among them.
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

// kind is n's page.
func (t *Tree) kind(n *node) Amount {
	if t.pool.atStart(n.page) {
		return Amount{Start: 1}
	}
	return Amount{Rest: 1}
}

// Idle is the pages that nobody but the tree refers to.
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

// Forget gives up the conversation that these tokens are: leaves that they begin with, or that
// begin with them, down to what others share with it. No tokens are every conversation. What is in
// use stays, and so does what it goes on from.
func (t *Tree) Forget(tokens []int32) {
	var ends []*node
	for n := range t.evictables() {
		if n.within(tokens) {
			ends = append(ends, n)
		}
	}
	for _, n := range ends { // what lies above them is within too
		for n != &t.root && t.evictable(n) {
			t.remove(n)
			n = n.parent
		}
	}
}

// within reports whether tokens begin with the path to n, or the path with tokens.
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

// Conversations is the number of leaves: prefixes that nothing longer continues.
func (t *Tree) Conversations() (leaves int) {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		if len(e.Value.(*node).children) == 0 {
			leaves++
		}
	}
	return leaves
}

// TrimConversations gives up whole conversations, the longest unused first and down to what they
// share with others, until at most so many are left or the rest is in use.
func (t *Tree) TrimConversations(limit int) {
	for leaves := t.Conversations(); leaves > limit; {
		n := t.oldestLeaf()
		if n == nil {
			return
		}
		for n != &t.root && t.evictable(n) {
			t.remove(n)
			n = n.parent
		}
		if n == &t.root || len(n.children) > 0 { // otherwise what is left of it is in use
			leaves--
		}
	}
}

// oldestLeaf is the one to evict next; nil: none can be.
func (t *Tree) oldestLeaf() *node {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*node); t.evictable(n) {
			return n
		}
	}
	return nil
}

// handOver gives n's state to a sibling that begins with the same tokens up to it, as the end of a
// head that many conversations share is inside a page: n goes, and the others go on from there.
// Without one the state is given up.
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
