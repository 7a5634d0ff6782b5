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
		if got := tree.Held(Chain(tokens(text), block), block, nil); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for _, wrong := range []int{-4, 0, 3, 6} {
		if got := tree.Held(Chain(tokens("system prompt"), 4), wrong, nil); got != 0 {
			t.Errorf("blocks of %d: %d", wrong, got)
		}
	}
	for text, want := range map[string]int{ // with the ends of some messages
		"system promptabcdefghijklmnop12": 31, "system promptabcdefghijklmnopqrs": 29,
		"system promptabcYeXghi": 18, "system pr": 9, "secret secret secret": 0,
	} {
		long := tokens(text)
		chain := Chain(long, block)
		ends := Ends(chain, long, block, []int{3, 9, 18, 19, 29, 31, 40})
		if got := tree.Held(chain, block, ends); got != want {
			t.Errorf("%q with ends: %d, want %d", text, got, want)
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
	ends := Ends(chain, text, 4, []int{9, 10, 11})
	if got := tree.Held(chain, 4, ends); got != 0 {
		t.Errorf("without a state: %d", got)
	}
	slot, _ := tree.TakeSlot()
	tree.SetState(text[:10], pages[:3], slot, false)
	for _, c := range []struct {
		chain []Hash
		ends  []End
		want  int
	}{
		{chain, nil, 10}, {chain[:2], nil, 0}, {chain[:2], ends, 10}, {chain[:1], ends, 0},
		{chain[:2], Ends(chain, tokens("abcdefghXX"), 4, []int{10}), 0},
	} {
		if got := tree.Held(c.chain, 4, c.ends); got != c.want {
			t.Errorf("%d blocks, %d ends: %d, want %d", len(c.chain), len(c.ends), got, c.want)
		}
	}
	for _, e := range ends {
		if !e.Is(chain, text, 4) || e.Is(chain, text[:e.Tokens-1], 4) ||
			e.Is(chain, tokens("abcdefghXXXXXXXX"), 4) {
			t.Errorf("the end at %d", e.Tokens)
		}
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
