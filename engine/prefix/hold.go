package prefix

// What others may read and add while the tree goes on living: the block store reads pages and
// states to write them to disk, and brings back what was written. Both hold what they read or wrote
// into, so that nothing is evicted or reused under them.

// Held is what the tree knows of some tokens, held until Release.
type Held struct {
	Tokens int     // whose keys and values are there
	Pages  []int32 // the pages that hold them; the last may hold fewer
	States []HeldState
	states []*state
}

// HeldState is a kept state.
type HeldState struct {
	Position int // tokens it has seen
	Slot     int32
}

// Hold finds all that is known of tokens: the longest prefix in pages, resumable or not, and, if
// they are wanted, every state within. What it holds is not evicted before Release, and it does not
// count as used.
func (t *Tree) Hold(tokens []int32, states bool) Held {
	f := t.find(tokens)
	h := Held{Tokens: f.knownTokens}
	for i, n := range f.known {
		t.pool.Ref(n.page)
		h.Pages = append(h.Pages, n.page)
		if !states {
			continue
		}
		for _, c := range n.parent.children[n.tokens[0]] {
			// siblings' states are good up to where they part
			common := n.from + Common(c.tokens, tokens[i*t.o.PageTokens:])
			for _, s := range c.states {
				if s.position <= common {
					s.held++
					h.states = append(h.states, s)
					h.States = append(h.States, HeldState{s.position, s.slot})
				}
			}
		}
	}
	return h
}

// Release ends a Hold.
func (t *Tree) Release(h Held) {
	for _, p := range h.Pages {
		t.pool.Unref(p)
	}
	for _, s := range h.states {
		s.held--
	}
}

// Leaves calls visit with the tokens of every prefix that nothing longer continues, the longest
// unused first, and how many of them can be resumed. The tokens are visit's to keep.
func (t *Tree) Leaves(visit func(tokens []int32, resumed int)) {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		leaf := e.Value.(*node)
		if len(leaf.children) > 0 {
			continue
		}
		tokens, resumed := make([]int32, leaf.from+len(leaf.tokens)), 0
		for n := leaf; n != &t.root; n = n.parent {
			copy(tokens[n.from:], n.tokens)
			for _, s := range n.states {
				resumed = max(resumed, s.position)
			}
		}
		if !t.o.Recurrent {
			resumed = len(tokens)
		}
		visit(tokens, resumed)
	}
}
