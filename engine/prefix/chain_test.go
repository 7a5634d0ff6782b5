package prefix

import (
	"fmt"
	"slices"
	"testing"
)

// TestHeld: what Held finds by hashes alone is what Probe finds with the tokens, in whole blocks.
func TestHeld(t *testing.T) {
	const page, block = 4, 8
	pool := NewPool(200, Start{})
	tree := NewTree(pool, Options{PageTokens: page})
	insert := func(text string, private bool) {
		var pages []int32
		for range (len(text) + page - 1) / page {
			pages = append(pages, pool.Alloc(0))
		}
		tree.Insert(tokens(text), pages, private)
	}
	insert("system promptabcdefghijklmnop12", false)
	insert("system promptabcdXXXXijklmnop", false)
	insert("system promptabcYefghijkl", false)
	insert("secret secret secret", true)
	for i := range 20 { // others with the same beginning
		insert(fmt.Sprintf("syst%04d", i), false)
	}
	for text, want := range map[string]int{
		"system promptabcdefghijklmnop12": 24, "system promptabcdefghijklmnopqrst": 24,
		"system promptabcdXXXXijkl": 24, "system promptabcYefghijkl": 24,
		"system promptabcYeXghi": 16, "system p": 8, "system": 0, "xystem promptabcd": 0,
		"secret secret secret": 0, "syst0007": 8,
	} {
		known, resumable := tree.Held(Chain(tokens(text), block), block)
		if known != want || resumable != want {
			t.Errorf("%q: %d known, %d resumable, want %d", text, known, resumable, want)
		}
	}
	for _, wrong := range []int{-4, 0, 3, 6} {
		if known, _ := tree.Held(Chain(tokens("system prompt"), 4), wrong); known != 0 {
			t.Errorf("blocks of %d: %d known", wrong, known)
		}
	}
}

// TestHeldRecurrent: a sequence can resume only where a state is.
func TestHeldRecurrent(t *testing.T) {
	pool := NewPool(20, Start{})
	tree := NewTree(pool, Options{PageTokens: 4, Recurrent: true, Slots: []int32{1, 2}})
	text := tokens("abcdefghijklmnop")
	pages := []int32{pool.Alloc(0), pool.Alloc(0), pool.Alloc(0), pool.Alloc(0)}
	tree.Insert(text, pages, false)
	chain := Chain(text, 4)
	if known, resumable := tree.Held(chain, 4); known != 16 || resumable != 0 {
		t.Errorf("without a state: %d, %d", known, resumable)
	}
	slot, _ := tree.TakeSlot()
	tree.SetState(text[:10], pages[:3], slot, false)
	if known, resumable := tree.Held(chain, 4); known != 16 || resumable != 10 {
		t.Errorf("with a state: %d, %d", known, resumable)
	}
	if known, resumable := tree.Held(chain[:2], 4); known != 8 || resumable != 0 {
		t.Errorf("before the state: %d, %d", known, resumable)
	}
}

// TestChain: a hash stands for everything before it, too.
func TestChain(t *testing.T) {
	a, b := Chain(tokens("abcdefghij"), 4), Chain(tokens("Xbcdefgh"), 4)
	if len(a) != 2 || len(b) != 2 || a[1] == b[1] || a[0] == a[1] {
		t.Errorf("%x, %x", a, b)
	}
	if !slices.Equal(a, Chain(tokens("abcdefghxx"), 4)) {
		t.Error("tokens after the last whole block count")
	}
	long := tokens("abcdefghijklmnopqrstuvwxyz")
	if got := ExtendChain(Chain(long[:10], 4), long, 4); !slices.Equal(got, Chain(long, 4)) {
		t.Errorf("extended: %x", got)
	}
}
