package tokenizer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// trie finds the tokens with which a text begins. Its nodes are in breadth-first order, so the
// children of a node lie side by side, and a node takes nine bytes.
type trie struct {
	labels []byte   // the byte that leads to the node
	first  []uint32 // the first child; the children of node n end where those of n+1 begin
	ids    []int32  // the token that ends at the node; -1: none
	root   [256]uint32
}

// entry is a token and its id.
type entry struct {
	token string
	id    int32
}

// newTrie makes a trie of tokens, which it sorts. If a token appears twice, the last id counts.
func newTrie(entries []entry) *trie {
	slices.SortStableFunc(entries, func(a, b entry) int {
		return strings.Compare(a.token, b.token)
	})
	// A group has the tokens that begin with the path to a node, which is depth bytes long.
	type group struct{ from, to, depth int }
	t := &trie{labels: []byte{0}, ids: []int32{-1}}
	groups := []group{{0, len(entries), 0}}
	for at := 0; at < len(groups); at++ {
		g := groups[at]
		groups[at] = group{}
		t.first = append(t.first, uint32(len(t.labels)))
		from := g.from
		for from < g.to && len(entries[from].token) == g.depth {
			t.ids[at] = entries[from].id
			from++
		}
		for from < g.to {
			b := entries[from].token[g.depth]
			n, _ := slices.BinarySearchFunc(entries[from:g.to], b, func(e entry, b byte) int {
				if e.token[g.depth] <= b {
					return -1
				}
				return cmp.Compare(e.token[g.depth], b)
			})
			if at == 0 {
				t.root[b] = uint32(len(t.labels))
			}
			t.labels, t.ids = append(t.labels, b), append(t.ids, -1)
			groups = append(groups, group{from, from + n, g.depth + 1})
			from += n
		}
	}
	t.first = append(t.first, uint32(len(t.labels)))
	return t
}

// remove removes a token if its id is one of those for which is returns true.
func (t *trie) remove(token string, is func(id int32) bool) {
	node := uint32(0)
	for i := range len(token) {
		if node = t.step(node, token[i]); node == 0 {
			return
		}
	}
	if is(t.ids[node]) {
		t.ids[node] = -1
	}
}

// step returns the node after one more byte. The root is node 0, and so is the answer if there is
// no such node.
func (t *trie) step(node uint32, b byte) uint32 {
	if node == 0 {
		return t.root[b]
	}
	from, to := t.first[node], t.first[node+1]
	if to-from <= 4 {
		for ; from < to; from++ {
			if t.labels[from] == b {
				return from
			}
		}
		return 0
	}
	if i := bytes.IndexByte(t.labels[from:to], b); i >= 0 {
		return from + uint32(i)
	}
	return 0
}
