package prefix

import "testing"

func tokens(s string) []int32 {
	var t []int32
	for _, c := range s {
		t = append(t, c)
	}
	return t
}

// TestSiblingsShareStates: two continuations part inside a page; a state kept before they part serves either.
func TestSiblingsShareStates(t *testing.T) {
	pool := NewPool(8)
	tree := NewTree(pool, Options{PageTokens: 4, Recurrent: true, Slots: []int32{7, 8}})
	page := pool.Alloc()
	slot, ok := tree.TakeSlot()
	if !ok || slot != 8 {
		t.Fatalf("slot %d, %t, expected 8", slot, ok)
	}
	tree.SetState(tokens("ab"), []int32{page}, slot)
	tree.Insert(tokens("abcd"), []int32{page}) // the same page, filled
	other := pool.Alloc()
	tree.Insert(tokens("abxy"), []int32{other})
	for _, c := range []struct {
		text   string
		tokens int
	}{{"abcdz", 2}, {"abxyz", 2}, {"abxz", 2}, {"abz", 2}, {"ab", 2}, {"az", 0}, {"", 0}} {
		hit := tree.Match(tokens(c.text), len(c.text))
		if hit.Tokens != c.tokens || hit.Tokens > 0 && (hit.Slot != slot || hit.Copy != page || len(hit.Pages) != 0) {
			t.Errorf("%q: %+v, expected %d tokens with the state in slot %d", c.text, hit, c.tokens, slot)
		}
		if hit.Copy >= 0 {
			pool.Unref(hit.Copy)
		}
	}
	second, _ := tree.TakeSlot()
	tree.SetState(tokens("ab"), []int32{page}, second) // known already
	if again, ok := tree.TakeSlot(); !ok || again != second {
		t.Errorf("got slot %d, %t, expected %d back", again, ok, second)
	}
	if last, ok := tree.TakeSlot(); !ok || last != slot { // none is free, so the state goes
		t.Errorf("got slot %d, %t, expected %d", last, ok, slot)
	}
	if hit := tree.Match(tokens("abcd"), 4); hit.Tokens != 0 {
		t.Errorf("%+v, expected nothing without a state", hit)
	}
}

// TestEvictOldestLeafFirst and never what a sequence holds.
func TestEvictOldestLeafFirst(t *testing.T) {
	pool := NewPool(3)
	tree := NewTree(pool, Options{PageTokens: 2})
	insert := func(text string, pages ...int32) {
		tree.Insert(tokens(text), pages)
	}
	root, old, young := pool.Alloc(), pool.Alloc(), pool.Alloc()
	insert("abcd", root, old)
	insert("abef", root, young)
	for _, p := range []int32{root, old, young} {
		pool.Unref(p)
	}
	hit := tree.Match(tokens("abcd"), 4) // used again: now "ef" is the oldest
	if tree.Evict(1); pool.Refs(young) != 0 || pool.Refs(old) != 2 {
		t.Errorf("references: young %d, old %d, expected 0 and 2", pool.Refs(young), pool.Refs(old))
	}
	if tree.Evict(3); pool.Free() != 1 {
		t.Errorf("%d pages free, expected 1: a sequence holds the others", pool.Free())
	}
	for _, p := range hit.Pages {
		pool.Unref(p)
	}
	if tree.Evict(3); pool.Free() != 3 || tree.Pages() != 0 {
		t.Errorf("%d pages free and %d in the tree, expected 3 and 0", pool.Free(), tree.Pages())
	}
}
