package prefix

import "testing"

func tokens(s string) []int32 {
	var t []int32
	for _, c := range s {
		t = append(t, c)
	}
	return t
}

// TestSiblingsShareStates checks that two continuations that diverge inside a page can both resume
// from a state before that point.
func TestSiblingsShareStates(t *testing.T) {
	pool := NewPool(8, Start{})
	tree := NewTree(pool, Options{PageTokens: 4, Recurrent: true, Slots: []int32{7, 8}})
	page := pool.Alloc(0)
	slot, ok := tree.TakeSlot()
	if !ok || slot != 8 {
		t.Fatalf("slot %d, %t, expected 8", slot, ok)
	}
	tree.SetState(tokens("ab"), []int32{page}, slot, false)
	tree.Insert(tokens("abcd"), []int32{page}, false) // the same page, filled
	other := pool.Alloc(0)
	tree.Insert(tokens("abxy"), []int32{other}, false)
	for _, c := range []struct {
		text   string
		tokens int
	}{{"abcdz", 2}, {"abxyz", 2}, {"abxz", 2}, {"abz", 2}, {"ab", 2}, {"az", 0}, {"", 0}} {
		hit := tree.Match(tokens(c.text), len(c.text))
		if hit.Tokens != c.tokens || hit.Tokens > 0 &&
			(hit.Slot != slot || hit.Copy != page || len(hit.Pages) != 0) {
			t.Errorf("%q: %+v, expected %d tokens with the state in slot %d", c.text, hit, c.tokens,
				slot)
		}
		if hit.Copy >= 0 {
			pool.Unref(hit.Copy)
		}
	}
	second, _ := tree.TakeSlot()
	tree.SetState(tokens("ab"), []int32{page}, second, false) // the tree already has this state
	if again, ok := tree.TakeSlot(); !ok || again != second {
		t.Errorf("got slot %d, %t, expected %d back", again, ok, second)
	}
	if last, ok := tree.TakeSlot(); !ok || last != slot { // none is free: the state is evicted
		t.Errorf("got slot %d, %t, expected %d", last, ok, slot)
	}
	if hit := tree.Match(tokens("abcd"), 4); hit.Tokens != 0 {
		t.Errorf("%+v, expected nothing without a state", hit)
	}
}

// TestStatesAreHandedOver checks that the state at the end of a shared system prompt survives the
// removal of the conversation that stored it.
func TestStatesAreHandedOver(t *testing.T) {
	pool := NewPool(8, Start{})
	tree := NewTree(pool, Options{PageTokens: 4, Recurrent: true, Slots: []int32{7, 8}})
	grow := func(text string) {
		page := pool.Alloc(0)
		tree.Insert(tokens(text), []int32{page}, false)
		pool.Unref(page)
	}
	page := pool.Alloc(0)
	slot, _ := tree.TakeSlot()
	tree.SetState(tokens("ab"), []int32{page}, slot, false)
	tree.Insert(tokens("abcd"), []int32{page}, false)
	pool.Unref(page)
	grow("abxy")
	grow("azzz")
	tree.Forget(tokens("abcd"))
	if hit := tree.Match(tokens("abn"), 3); hit.Tokens != 2 || hit.Slot != slot {
		t.Errorf("%+v, expected the state after 2 tokens in slot %d", hit, slot)
	} else {
		pool.Unref(hit.Copy)
	}
	tree.Forget(tokens("abxy")) // the last conversation that could use the state
	if hit := tree.Match(tokens("abn"), 3); hit.Tokens != 0 || tree.Pages() != 1 ||
		len(tree.slots) != 2 {
		t.Errorf("%+v, %d pages, %d free slots; expected only the third conversation", hit,
			tree.Pages(), len(tree.slots))
	}
}

// TestEvictOldestLeafFirst checks that eviction is least recently used first and spares pages in
// use.
func TestEvictOldestLeafFirst(t *testing.T) {
	pool := NewPool(3, Start{})
	tree := NewTree(pool, Options{PageTokens: 2})
	insert := func(text string, pages ...int32) {
		tree.Insert(tokens(text), pages, false)
	}
	root, old, young := pool.Alloc(0), pool.Alloc(0), pool.Alloc(0)
	insert("abcd", root, old)
	insert("abef", root, young)
	for _, p := range []int32{root, old, young} {
		pool.Unref(p)
	}
	hit := tree.Match(tokens("abcd"), 4) // now "ef" is the least recently used
	if tree.Evict(Amount{Rest: 1}); pool.Refs(young) != 0 || pool.Refs(old) != 2 {
		t.Errorf("references: young %d, old %d, expected 0 and 2", pool.Refs(young), pool.Refs(old))
	}
	if tree.Evict(Amount{Rest: 3}); pool.Free().Rest != 1 {
		t.Errorf("%+v free, expected 1 page: a sequence holds the others", pool.Free())
	}
	for _, p := range hit.Pages {
		pool.Unref(p)
	}
	if tree.Evict(Amount{Rest: 3}); pool.Free().Rest != 3 || tree.Pages() != 0 {
		t.Errorf("%+v free and %d pages in the tree, expected 3 and 0", pool.Free(), tree.Pages())
	}
}

// TestKindsOfPages gives every sequence a start page of 2 tokens. Evicting other pages must spare
// short conversations, and each kind of page has its own size.
func TestKindsOfPages(t *testing.T) {
	pool := NewPool(5, Start{Entries: 1, Pages: 3})
	tree := NewTree(pool, Options{PageTokens: 2, Sizes: Sizes{Start: 10, Rest: 1}})
	grow := func(text string) (pages []int32) {
		for i := range (len(text) + 1) / 2 {
			pages = append(pages, pool.Alloc(i))
		}
		tree.Insert(tokens(text), pages, false)
		for _, p := range pages {
			pool.Unref(p)
		}
		return pages
	}
	short, long := grow("ab"), grow("cdefgh")
	if long[0] >= 3 || long[1] < 3 || long[2] < 3 || pool.Need(0, 3) != (Amount{1, 2}) ||
		pool.Need(2, 3) != (Amount{Rest: 1}) || pool.Need(0, 0) != (Amount{}) {
		t.Errorf("pages %v, expected only the first one to be below 3", long)
	}
	if tree.Evict(Amount{Rest: 1}); pool.Refs(short[0]) != 1 || pool.Free() != (Amount{1, 1}) {
		t.Errorf("%+v free, expected only the end of the long conversation to go", pool.Free())
	}
	if idle := tree.Idle(); idle != (Amount{2, 1}) || pool.Used() != idle ||
		idle.Bytes(tree.o.Sizes) != 21 {
		t.Errorf("%+v idle, %+v in use", idle, pool.Used())
	}
	if tree.Trim(11); tree.Idle() != (Amount{1, 1}) { // removing the oldest page is enough
		t.Errorf("%+v idle, expected the rest of the long conversation", tree.Idle())
	}
	grow("ij")
	if tree.Evict(Amount{Start: 2}); pool.Free() != (Amount{2, 2}) {
		t.Errorf("%+v free, expected eviction of the rest of the long conversation", pool.Free())
	}
	tree.Evict(Amount{3, 2})
	grow("kl")
	if peak := pool.Peak(); peak != (Amount{2, 2}) {
		t.Errorf("peak %+v, expected 2 pages of each kind", peak)
	}
}
