package prefix

// A radix tree of what the cache's pages hold, one node per page. Only full pages have children. The tree holds one reference
// to each page it names; a page is free when sequences and tree have let go of it, so eviction here never takes memory from a
// running sequence.

import "slices"

// Options describe the memory that the tree manages.
type Options struct {
	PageTokens int     // positions of a page
	Recurrent  bool    // the model has recurrent state: a prefix can only be resumed where the state was kept
	Slots      []int32 // state slots that the tree may keep states in
}

// Tree is the prefix tree. It is not safe for concurrent use.
type Tree struct {
	o     Options
	pool  *Pool
	root  node
	slots []int32 // free
	clock uint64
	nodes int
}

// node is one page of tokens behind its parent's.
type node struct {
	parent   *node
	from     int     // position of the first token
	tokens   []int32 // 1 to PageTokens of them; none for the root
	page     int32
	children map[int32][]*node // by first token; only below full pages and the root
	states   []state           // by position
	used     uint64
}

// state is a kept recurrent state.
type state struct {
	position int // tokens it has seen; within (from, from+len(tokens)] of its node
	slot     int32
	used     uint64
}

// NewTree makes an empty tree over the pool.
func NewTree(pool *Pool, o Options) *Tree {
	return &Tree{o: o, pool: pool, slots: slices.Clone(o.Slots), root: node{children: map[int32][]*node{}}}
}

// Hit is a prefix that has been computed before.
type Hit struct {
	Tokens int     // its length; 0: nothing was found
	Pages  []int32 // its full pages: the caller holds a reference to each
	// Copy is a page whose first Tokens%PageTokens positions belong to the prefix: to be copied into a page of the caller's own
	// before it is written. -1 if the prefix ends with a full page. The caller holds a reference.
	Copy int32
	Slot int32 // where the state after the prefix is kept; -1 for models without one
}

// Match finds the longest prefix of tokens, at most limit long, that can be resumed. References to its pages now belong to the
// caller.
func (t *Tree) Match(tokens []int32, limit int) Hit {
	t.clock++
	best := Hit{Copy: -1, Slot: -1}
	var last *node // holds the prefix's last token
	bestState := -1
	tokens = tokens[:min(len(tokens), limit)]
	for n, position := &t.root, 0; position < len(tokens); position += t.o.PageTokens {
		var next *node
		for _, c := range n.children[tokens[position]] {
			common := commonPrefix(c.tokens, tokens[position:])
			if common == t.o.PageTokens {
				next = c
			}
			if !t.o.Recurrent && position+common > best.Tokens {
				best.Tokens, last = position+common, c
			}
			for i, s := range c.states { // a sibling's state serves as well, up to where they part
				if s.position <= position+common && s.position > best.Tokens {
					best.Tokens, last, bestState = s.position, c, i
				}
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	if last == nil {
		return best
	}
	if bestState >= 0 {
		last.states[bestState].used = t.clock
		best.Slot = last.states[bestState].slot
	}
	if best.Tokens%t.o.PageTokens != 0 {
		best.Copy = last.page
		t.pool.Ref(last.page)
		last.used = t.clock
		last = last.parent
	}
	for ; last != &t.root; last = last.parent {
		last.used = t.clock
		t.pool.Ref(last.page)
		best.Pages = append(best.Pages, last.page)
	}
	slices.Reverse(best.Pages)
	return best
}

// closest is the child of n that shares the most tokens with the beginning of tokens.
func (t *Tree) closest(n *node, tokens []int32) (child *node, common int) {
	if len(tokens) == 0 || n.children == nil {
		return nil, 0
	}
	for _, c := range n.children[tokens[0]] {
		if k := commonPrefix(c.tokens, tokens); k > common {
			child, common = c, k
		}
	}
	return child, common
}

func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Insert records that pages hold the keys and values of tokens. The tree takes references of its own to the pages it did not know;
// where it knew the tokens already, its own pages stay.
func (t *Tree) Insert(tokens []int32, pages []int32) { t.insert(tokens, pages) }

// insert returns the node that holds the last token.
func (t *Tree) insert(tokens []int32, pages []int32) *node {
	t.clock++
	n := &t.root
	for from := 0; from < len(tokens); from += t.o.PageTokens {
		n = t.extend(n, from, tokens[from:min(from+t.o.PageTokens, len(tokens))], pages[from/t.o.PageTokens])
		n.used = t.clock
	}
	return n
}

// extend finds or makes the child of n that begins with tokens, a page of them or less.
func (t *Tree) extend(n *node, from int, tokens []int32, page int32) *node {
	c, common := t.closest(n, tokens)
	switch {
	case c != nil && common == len(tokens):
		return c // known, perhaps with more behind
	case c != nil && common == len(c.tokens): // c was a shorter beginning of this page
		if c.page != page {
			t.pool.Ref(page)
			t.pool.Unref(c.page)
			c.page = page
		}
		c.tokens = slices.Clone(tokens)
		if len(tokens) == t.o.PageTokens {
			c.children = map[int32][]*node{}
		}
		return c
	}
	t.pool.Ref(page)
	c = &node{parent: n, from: from, tokens: slices.Clone(tokens), page: page}
	if len(tokens) == t.o.PageTokens {
		c.children = map[int32][]*node{}
	}
	n.children[tokens[0]] = append(n.children[tokens[0]], c)
	t.nodes++
	return c
}

// TakeSlot finds a slot for a state that is about to be computed, giving up the one unused longest if it must. It goes back by
// SetState or ReturnSlot.
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

// SetState records tokens and pages as Insert does, and that slot holds the state after the last token. If that state is known
// already, the slot is free again, and the answer false.
func (t *Tree) SetState(tokens []int32, pages []int32, slot int32) bool {
	n := t.insert(tokens, pages)
	for i := range n.states {
		if n.states[i].position == len(tokens) {
			n.states[i].used = t.clock
			t.ReturnSlot(slot)
			return false
		}
	}
	n.states = append(n.states, state{position: len(tokens), slot: slot, used: t.clock})
	return true
}

// dropState gives up the state that was used longest ago.
func (t *Tree) dropState() bool {
	var owner *node
	at := -1
	t.walk(&t.root, func(n *node) {
		for i, s := range n.states {
			if owner == nil || s.used < owner.states[at].used {
				owner, at = n, i
			}
		}
	})
	if owner == nil {
		return false
	}
	t.slots = append(t.slots, owner.states[at].slot)
	owner.states = slices.Delete(owner.states, at, at+1)
	return true
}

// Evict gives up leaves, the longest unused first, until so many pages are free or nothing can be freed. Pages that a sequence
// uses as well do not become free; their leaves are left alone.
func (t *Tree) Evict(free int) {
	for t.pool.Free() < free {
		var oldest *node
		t.walk(&t.root, func(n *node) {
			if len(n.children) == 0 && t.pool.refs[n.page] == 1 && (oldest == nil || n.used < oldest.used) {
				oldest = n
			}
		})
		if oldest == nil {
			return
		}
		t.remove(oldest)
	}
}

func (t *Tree) remove(n *node) {
	for _, s := range n.states {
		t.slots = append(t.slots, s.slot)
	}
	siblings := n.parent.children[n.tokens[0]]
	siblings = slices.Delete(siblings, slices.Index(siblings, n), slices.Index(siblings, n)+1)
	if len(siblings) == 0 {
		delete(n.parent.children, n.tokens[0])
	} else {
		n.parent.children[n.tokens[0]] = siblings
	}
	t.pool.Unref(n.page)
	t.nodes--
}

func (t *Tree) walk(n *node, visit func(*node)) {
	for _, siblings := range n.children {
		for _, c := range siblings {
			t.walk(c, visit)
		}
	}
	if n != &t.root {
		visit(n)
	}
}

// Slots is the number of state slots that are free or hold a state: all but those taken and not yet set or returned.
func (t *Tree) Slots() int {
	n := len(t.slots)
	t.walk(&t.root, func(c *node) { n += len(c.states) })
	return n
}

// Each calls visit with the page of every node.
func (t *Tree) Each(visit func(page int32)) {
	t.walk(&t.root, func(n *node) { visit(n.page) })
}

// Pages is the number of pages that the tree refers to.
func (t *Tree) Pages() int { return t.nodes }
