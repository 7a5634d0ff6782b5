package prefix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRandomOperations performs random operations and checks the tree's invariants after each one.
func TestRandomOperations(t *testing.T) {
	const pages, slots, pageTokens = 40, 6, 3
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		start := Start{Entries: r.IntN(3), Pages: r.IntN(pages)}
		if start.Entries == 0 {
			start.Pages = 0
		}
		pool := NewPool(pages, start)
		all := pool.Free()
		tree := NewTree(pool, Options{PageTokens: pageTokens, Recurrent: true,
			Slots: []int32{0, 1, 2, 3, 4, 5}, Sizes: Sizes{3, 1}})
		var held []Held
		for range 300 {
			text := make([]int32, 1+r.IntN(15))
			for i := range text {
				text[i] = r.Int32N(2)
			}
			switch r.IntN(7) {
			case 0, 1:
				grow(tree, pool, text)
			case 2:
				hit := tree.Match(text, len(text))
				for _, p := range hit.Pages {
					pool.Unref(p)
				}
				if hit.Copy >= 0 {
					pool.Unref(hit.Copy)
				}
			case 3:
				held = append(held, tree.Hold(text, true))
			case 4:
				if len(held) > 0 {
					tree.Release(held[0])
					held = held[1:]
				}
			case 6:
				forget(t, tree, pool, text[:r.IntN(len(text)+1)])
			case 5:
				tree.Evict(Amount{r.IntN(pages), r.IntN(pages)})
				tree.Trim(r.Int64N(3 * pages))
				tree.TrimConversations(r.IntN(12))
			}
			checkInvariants(t, tree, held)
		}
		for _, h := range held {
			tree.Release(h)
		}
		if tree.Evict(all); pool.Free() != all || tree.Slots() != slots ||
			len(tree.slots) != slots {
			t.Fatalf("seed %d: %+v pages and %d slots are free at the end", seed, pool.Free(),
				len(tree.slots))
		}
	}
}

// grow inserts text and its state if enough pages are free.
func grow(tree *Tree, pool *Pool, text []int32) {
	entries := (len(text) + 2) / 3
	need := pool.Need(0, entries)
	if tree.Evict(need); !pool.Free().Covers(need) {
		return
	}
	var own []int32
	for i := range entries {
		own = append(own, pool.Alloc(i))
	}
	if slot, ok := tree.TakeSlot(); ok {
		tree.SetState(text, own, slot, false)
	}
	for _, p := range own {
		pool.Unref(p)
	}
}

// forget removes a conversation. Only its held or shared nodes may be left, and other conversations
// must not change.
func forget(t *testing.T, tree *Tree, pool *Pool, text []int32) {
	t.Helper()
	others := map[string]bool{}
	tree.Leaves(func(l Leaf) {
		tokens, resumed := l.Tokens, l.Resumable
		if Common(tokens, text) < min(len(tokens), len(text)) {
			others[fmt.Sprint(tokens, resumed)] = true
		}
	})
	tree.Forget(text)
	tree.Leaves(func(l Leaf) { delete(others, fmt.Sprint(l.Tokens, l.Resumable)) })
	if len(others) > 0 {
		t.Fatalf("forgetting %v also removed %v", text, others)
	}
	for n := range tree.evictables() {
		if path := pathOf(n); Common(path, text) == min(len(path), len(text)) {
			t.Fatalf("forgetting %v left %v, which is not in use", text, path)
		}
	}
}

func pathOf(n *node) (tokens []int32) {
	for ; n.parent != nil; n = n.parent {
		tokens = slices.Concat(n.tokens, tokens)
	}
	return tokens
}

func checkInvariants(t *testing.T, tree *Tree, held []Held) {
	t.Helper()
	age := map[*node]int{tree.root: tree.nodes.Len()}
	for e := tree.nodes.Front(); e != nil; e = e.Next() {
		age[e.Value.(*node)] = len(age) - 1
	}
	for n, a := range age {
		if n.parent != nil && age[n.parent] < a {
			t.Fatalf("the node at %d was used after its parent", n.from)
		}
		if n.parent != nil && tree.pool.Refs(n.page) < 1 {
			t.Fatalf("the node at %d has a free page", n.from)
		}
		if n.parent != nil && (n.from < 3*tree.pool.start.Entries) != tree.pool.atStart(n.page) {
			t.Fatalf("the node at %d has page %d, which is of the wrong kind", n.from, n.page)
		}
	}
	free := map[int32]bool{}
	for _, s := range tree.slots {
		free[s] = true
	}
	for _, h := range held {
		for _, s := range h.States {
			if free[s.Slot] {
				t.Fatalf("slot %d is free, but its state is held", s.Slot)
			}
		}
		for _, p := range h.Pages {
			if tree.pool.Refs(p) < 1 {
				t.Fatalf("page %d is free, but it is held", p)
			}
		}
	}
}
