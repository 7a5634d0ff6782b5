package prefix

// Pages and states are held while the block store writes them to disk or reads them back, so that
// they are not evicted meanwhile.

// Held lists the pages and states that the tree has for a token sequence. They are held until
// Release.
type Held struct {
	Tokens int     // number of tokens whose keys and values are in Pages
	Pages  []int32 // all full, except perhaps the last
	States []HeldState
	states []*state
}

// HeldState is a recurrent state that is held.
type HeldState struct {
	Position int // number of tokens before it
	Slot     int32
}

// Hold returns the pages of the longest prefix of tokens in the tree, even if a sequence cannot
// resume at its end. If states is true, it also returns every state in that prefix. None of these
// is evicted before Release. Hold does not count as use.
func (p Space) Hold(tokens []int32, states bool) Held {
	t, f := p.t, p.find(tokens)
	h := Held{Tokens: f.knownTokens}
	for i, n := range f.known {
		t.pool.Ref(n.page)
		h.Pages = append(h.Pages, n.page)
		if !states {
			continue
		}
		for _, c := range n.parent.children[n.tokens[0]] {
			// A sibling's states are valid up to where it diverges.
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

// Leaf is a path of the tree that no other path continues.
type Leaf struct {
	Tokens    []int32 // from the root to the leaf
	Resumable int     // number of tokens after which a sequence can resume
	Private   bool    // only private sequences have computed its last tokens
}

// Leaves calls visit for every leaf, least recently used first. visit may keep the tokens.
func (t *Tree) Leaves(visit func(Leaf)) {
	for e := t.nodes.Front(); e != nil; e = e.Next() {
		leaf := e.Value.(*node)
		if len(leaf.children) > 0 {
			continue
		}
		tokens, resumable := make([]int32, leaf.from+len(leaf.tokens)), 0
		for n := leaf; n.parent != nil; n = n.parent {
			copy(tokens[n.from:], n.tokens)
			for _, s := range n.states {
				resumable = max(resumable, s.position)
			}
		}
		if !t.o.Recurrent {
			resumable = len(tokens)
		}
		visit(Leaf{tokens, resumable, leaf.private})
	}
}
