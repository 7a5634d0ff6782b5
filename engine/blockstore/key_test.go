package blockstore

import (
	"slices"
	"testing"
)

// count returns the tokens from, from+1, … to-1.
func count(from, to int) []int32 {
	var tokens []int32
	for i := from; i < to; i++ {
		tokens = append(tokens, int32(i))
	}
	return tokens
}

// TestKeys compares with keys that Python (hashlib and struct) computed from the layout in the
// comment of keys.key.
func TestKeys(t *testing.T) {
	k := newKeys("fp", "k8v4", nil)
	block := k.key(kindBlock, Key{}, count(0, 256))
	for _, c := range []struct {
		name string
		got  Key
		want string
	}{
		{"first block", block, "19ad6c48c4ac92522857878ef3076ba4c0543e27eac1d1dbfe5ef6381119dcd0"},
		{"tail after it", k.key(kindTail, block, []int32{7, 8, 9}),
			"b50025f773483f115d5c3a82ab649d2c7cf09aecac66af8a01cd4ee88badb875"},
		{"state after it", k.key(kindState, block, nil),
			"116fe6231b04bdbf46606df5555c5bb11dc89ef19ae7adc265cc346df93b118c"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s: %s, expected %s", c.name, c.got, c.want)
		}
	}
	if chain := k.chain(count(0, 600)); len(chain) != 2 || chain[0] != block ||
		chain[1] != k.key(kindBlock, block, count(256, 512)) {
		t.Errorf("chain of 600 tokens: %v", chain)
	}
}

// TestKeysDiffer checks that every property of an entry changes its key, and that moving a byte
// from one field to the next does too.
func TestKeysDiffer(t *testing.T) {
	seen := map[Key]string{}
	add := func(what string, k Key) {
		t.Helper()
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", what, other)
		}
		seen[k] = what
	}
	tokens := count(0, 256)
	k := newKeys("fp", "k8v4", nil)
	add("plain", k.key(kindBlock, Key{}, tokens))
	add("fingerprint", newKeys("fq", "k8v4", nil).key(kindBlock, Key{}, tokens))
	add("format", newKeys("fp", "k8v8", nil).key(kindBlock, Key{}, tokens))
	add("shifted fields", newKeys("fpk", "8v4", nil).key(kindBlock, Key{}, tokens))
	add("parent", k.key(kindBlock, Key{1}, tokens))
	add("state", k.key(kindState, Key{}, tokens))
	add("tail", k.key(kindTail, Key{}, tokens))
	add("root", k.root)
	changed := slices.Clone(tokens)
	changed[255]++
	add("last token", k.key(kindBlock, Key{}, changed))
	add("negative token", k.key(kindBlock, Key{}, append(tokens[:255:255], -1)))
	add("one token less", k.key(kindBlock, Key{}, tokens[:255]))
}

func TestOrdered(t *testing.T) {
	for _, tokens := range [][]int32{{}, {0}, {1, 256, 65536, 1 << 24, -1}} {
		if got := fromOrdered(ordered(tokens)); !slices.Equal(got, tokens) {
			t.Errorf("%v became %v", tokens, got)
		}
	}
	if a, b := ordered([]int32{1, 300}), ordered([]int32{1, 2000, 5}); slices.Compare(a, b) >= 0 {
		t.Error("the bytes do not sort like the tokens")
	}
}
