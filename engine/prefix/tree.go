package prefix

// The tree is a radix tree of the tokens in the pages, with one node per page. It holds one
// reference to each of its pages, so evicting a node never takes a page from a running sequence.

import (
	"container/list"
	"slices"
)

// Options describes the memory that the tree manages.
type Options struct {
	PageTokens int // positions of a page
	// Recurrent means that a sequence can resume only where a state is kept.
	Recurrent bool
	Slots     []int32 // state slots that the tree may keep states in
	Sizes     Sizes   // of the pool's pages; only Trim needs them
}

// Tree is the prefix tree. It is not safe for concurrent use. Its methods for tokens are those of
// the Space 0.
type Tree struct {
	Space
	o     Options
	pool  *Pool
	roots map[int32]*node // of the spaces
	slots []int32         // free
	// fresh is the least number of slots that were ever free at once, and withheld the number of
	// those that LimitSlots does not allow.
	fresh, withheld int
	// Least recently used first. A parent comes after its children.
	nodes  list.List // of *node
	states list.List // of *state
}

// node is one page of tokens, which follow its parent's tokens.
type node struct {
	parent   *node
	from     int     // position of the first token
	tokens   []int32 // 1 to PageTokens; none in the root
	page     int32
	children map[int32][]*node // by first token; only below full pages and the root
	states   []*state
	private  bool          // only private sequences have computed the last of the tokens
	place    *list.Element // in Tree.nodes
}

// state is a kept recurrent state.
type state struct {
	owner    *node
	position int // number of tokens before it, in (from, from+len(tokens)] of its owner
	slot     int32
	held     int           // number of holders
	place    *list.Element // in Tree.states
}

// NewTree returns an empty tree over the pool.
func NewTree(pool *Pool, o Options) *Tree {
	t := &Tree{o: o, pool: pool, slots: slices.Clone(o.Slots), fresh: len(o.Slots),
		roots: map[int32]*node{}}
	t.Space = t.In(0)
	return t
}

// Space is the part of a tree with the tokens that one adapter, or none, has computed. No prefix of
// a space is found in another one. All spaces share the pool, the slots and the order of eviction.
type Space struct {
	t    *Tree
	root *node
}

// In returns the space with that number. That of the model without an adapter is 0.
func (t *Tree) In(space int32) Space {
	root := t.roots[space]
	if root == nil {
		root = &node{children: map[int32][]*node{}}
		t.roots[space] = root
	}
	return Space{t, root}
}

// Hit is a cached prefix. The caller holds a reference to each of its pages.
type Hit struct {
	Tokens int     // length of the prefix; 0: none was found
	Pages  []int32 // full pages of the prefix
	// Copy is the page with the last Tokens%PageTokens positions of the prefix. The caller copies
	// it and writes to the copy. -1: the prefix ends with a full page.
	Copy int32
	Slot int32 // of the state after the prefix; -1 for models without states
}

// found is the result of the method find.
type found struct {
	tokens int    // length of the longest resumable prefix
	last   *node  // the node of its last token; nil: there is none
	state  *state // the state after it; nil for models without states
	known  []*node
	// knownTokens is the number of tokens whose keys and values are in the pages of known, even if
	// a sequence cannot resume after them.
	knownTokens int
}

// find returns the longest prefix of tokens in the space, and the longest one at whose end a
// sequence can resume.
func (p Space) find(tokens []int32) (f found) {
	t := p.t
	for n, position := p.root, 0; position < len(tokens); position += t.o.PageTokens {
		var next *node
		deepest := position
		for _, c := range n.children[tokens[position]] {
			common := Common(c.tokens, tokens[position:])
			if common == t.o.PageTokens {
				next = c
			}
			if position+common > deepest {
				deepest = position + common
				f.known = append(f.known[:position/t.o.PageTokens], c)
			}
			if !t.o.Recurrent && position+common > f.tokens {
				f.tokens, f.last = position+common, c
			}
			for _, s := range c.states { // a sibling's state is valid up to where it diverges
				if s.position <= position+common && s.position > f.tokens {
					f.tokens, f.last, f.state = s.position, c, s
				}
			}
		}
		f.knownTokens = deepest
		if next == nil {
			break
		}
		n = next
	}
	return f
}

// Probe looks up tokens[:limit]. It returns the number of tokens whose keys and values are in
// pages, and the number after which a sequence can resume. Probe does not count as use.
func (p Space) Probe(tokens []int32, limit int) (known, resumable int) {
	f := p.find(tokens[:min(len(tokens), limit)])
	return f.knownTokens, f.tokens
}

// Match returns the longest cached prefix of tokens[:limit] at whose end a sequence can resume. The
// caller gets a reference to each of its pages.
func (p Space) Match(tokens []int32, limit int) Hit {
	t, f := p.t, p.find(tokens[:min(len(tokens), limit)])
	hit := Hit{Tokens: f.tokens, Copy: -1, Slot: -1}
	if f.last == nil {
		return hit
	}
	t.use(f.last)
	if f.state != nil {
		t.states.MoveToBack(f.state.place)
		hit.Slot = f.state.slot
	}
	n := f.last
	if hit.Tokens%t.o.PageTokens != 0 {
		hit.Copy = n.page
		t.pool.Ref(n.page)
		n = n.parent
	}
	for ; n.parent != nil; n = n.parent {
		t.pool.Ref(n.page)
		hit.Pages = append(hit.Pages, n.page)
	}
	slices.Reverse(hit.Pages)
	return hit
}

// use marks the nodes on the path to n as the most recently used, each parent after its child.
func (t *Tree) use(n *node) {
	for ; n.parent != nil; n = n.parent {
		t.nodes.MoveToBack(n.place)
	}
}

// closest returns the child of n with the longest common prefix with tokens.
func (t *Tree) closest(n *node, tokens []int32) (child *node, common int) {
	if len(tokens) == 0 || n.children == nil {
		return nil, 0
	}
	for _, c := range n.children[tokens[0]] {
		if k := Common(c.tokens, tokens); k > common {
			child, common = c, k
		}
	}
	return child, common
}

// Common returns the length of the longest common prefix of a and b.
func Common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Insert records that pages hold the keys and values of tokens. The tree adds a reference to each
// page whose tokens it does not have yet. A leaf that only private sequences have inserted is
// reported as private; see Leaves.
func (p Space) Insert(tokens []int32, pages []int32, private bool) {
	p.insert(tokens, pages, private)
}

// insert returns the node that holds the last token.
func (p Space) insert(tokens []int32, pages []int32, private bool) *node {
	t, n := p.t, p.root
	for from := 0; from < len(tokens); from += t.o.PageTokens {
		n = t.extend(n, from, tokens[from:min(from+t.o.PageTokens, len(tokens))],
			pages[from/t.o.PageTokens], private)
	}
	t.use(n)
	return n
}

// extend returns the child of n that begins with the given tokens, which fit in a page. If there is
// none, it extends a child that is a prefix of the tokens, or adds a child.
func (t *Tree) extend(n *node, from int, tokens []int32, page int32, private bool) *node {
	c, common := t.closest(n, tokens)
	switch {
	case c != nil && common == len(tokens):
		if len(c.tokens) == len(tokens) { // otherwise it has more tokens
			c.private = c.private && private
		}
		return c
	case c != nil && common == len(c.tokens): // c has a shorter beginning of this page
		if c.page != page {
			t.pool.Ref(page)
			t.pool.Unref(c.page)
			c.page = page
		}
		c.tokens, c.private = slices.Clone(tokens), private
	default:
		t.pool.Ref(page)
		c = &node{parent: n, from: from, tokens: slices.Clone(tokens), page: page,
			private: private}
		c.place = t.nodes.PushBack(c)
		n.children[tokens[0]] = append(n.children[tokens[0]], c)
	}
	if len(tokens) == t.o.PageTokens {
		c.children = map[int32][]*node{}
	}
	return c
}

// SetState inserts tokens like Insert, and records that slot holds the state after the last token.
// If the tree already has that state, SetState frees the slot and returns false.
func (p Space) SetState(tokens []int32, pages []int32, slot int32, private bool) bool {
	t, n := p.t, p.insert(tokens, pages, private)
	for _, s := range n.states {
		if s.position == len(tokens) {
			t.states.MoveToBack(s.place)
			t.ReturnSlot(slot)
			return false
		}
	}
	s := &state{owner: n, position: len(tokens), slot: slot}
	s.place = t.states.PushBack(s)
	n.states = append(n.states, s)
	return true
}

// Slots returns the number of state slots that are free or hold a state. It does not count slots
// between TakeSlot and SetState or ReturnSlot.
func (t *Tree) Slots() int { return len(t.slots) + t.states.Len() }

// Each calls visit for the page of every node.
func (t *Tree) Each(visit func(page int32)) {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		visit(e.Value.(*node).page)
	}
}

// Pages returns the number of pages in the tree.
func (t *Tree) Pages() int { return t.nodes.Len() }
