package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/blockstore"
	"headroom/engine/problem"
)

var (
	modelA = engine.StoredModel{Fingerprint: "fa", Format: "K8 V4 #1234", Name: "org/A"}
	modelB = engine.StoredModel{Fingerprint: "fb", Format: "f16 #5678", Name: "org/B"}
)

// tokens returns n tokens. Lists with the same seed begin with the same tokens.
func tokens(seed, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(seed*1000 + i)
	}
	return list
}

// save writes a whole conversation to disk.
func save(t *testing.T, c *Cache, m engine.StoredModel, title string, text []int32) {
	t.Helper()
	done := make(chan blockstore.Saved, 1)
	ok := c.Store().Model(m).Save(
		blockstore.Sequence{Tokens: text, Tail: true, Title: title, SecondsPerToken: 0.01,
			KV: func(from, to int) []blockstore.Tensor {
				return []blockstore.Tensor{{Name: "0.k",
					Pieces: [][]byte{make([]byte, 4*(to-from))}}}
			},
			Done: func(s blockstore.Saved) { done <- s }})
	if !ok {
		t.Fatal("not saved")
	}
	if s := <-done; s.Err != nil {
		t.Fatal(s.Err)
	}
}

// memoryOf returns the memory of a running model.
func memoryOf(m engine.StoredModel, prefixes ...[]int32) *Memory {
	memory := &Memory{StoredModel: m,
		Title: func(text []int32) string { return fmt.Sprint("text ", text[0]) }}
	for _, text := range prefixes {
		memory.Prefixes = append(memory.Prefixes, engine.CachedPrefix{Tokens: text})
	}
	return memory
}

// private marks the prefixes in memory as private.
func private(m *Memory) *Memory {
	for i := range m.Prefixes {
		m.Prefixes[i].Private = true
	}
	return m
}

// lines formats a list: "model title tokens/memoryTokens" for each conversation, followed by
// "memory" if it has no key and "private" if it is private.
func lines(list List) string {
	var words []string
	for _, c := range list.Conversations {
		line := fmt.Sprintf("%s %s %d/%d", c.Model, c.Title, c.Tokens, c.MemoryTokens)
		if c.Key == "" {
			line += " memory"
		}
		if c.Private {
			line += " private"
		}
		words = append(words, line)
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

// TestList lists conversations on disk and in memory.
func TestList(t *testing.T) {
	c := open(t, t.TempDir())
	head := tokens(1, 600)
	one := append(slices.Clone(head), tokens(2, 100)...)
	two := append(slices.Clone(head), tokens(3, 200)...)
	save(t, c, modelA, "one", one)
	save(t, c, modelA, "two", two)
	save(t, c, modelB, "elsewhere", one)
	other := modelA
	other.Format = "f16 #1234"
	save(t, c, other, "other format", one)
	onDisk := "org/A one 700/0; org/A other format 700/0; org/A two 800/0; org/B elsewhere 700/0"

	cases := []struct {
		name   string
		memory *Memory
		want   string
	}{
		{"no model", nil, onDisk},
		{"nothing in memory", memoryOf(modelA), onDisk},
		{`all of "one", the beginning of "two"`, memoryOf(modelA, one),
			"org/A one 700/700; org/A other format 700/0; org/A two 800/600; org/B elsewhere " +
				"700/0"},
		{`"one" has grown in memory and is still the same conversation`,
			memoryOf(modelA, append(slices.Clone(one), 7, 8)),
			"org/A one 700/700; org/A other format 700/0; org/A two 800/600; org/B elsewhere " +
				"700/0"},
		{`the beginning of "two"`, memoryOf(modelA, two[:650]),
			"org/A one 700/600; org/A other format 700/0; org/A two 800/650; org/B elsewhere " +
				"700/0"},
		{`two prefixes begin with all of "one": the longer belongs to it`,
			memoryOf(modelA, append(slices.Clone(one), 7), append(slices.Clone(one), 8, 9)),
			"org/A one 700/700; org/A other format 700/0; org/A text 1000 701/701 memory; org/A " +
				"two 800/600; org/B elsewhere 700/0"},
		{"only in memory", memoryOf(modelA, tokens(9, 50)),
			"org/A one 700/0; org/A other format 700/0; org/A text 9000 50/50 memory; org/A two " +
				"800/0; org/B elsewhere 700/0"},
		{"private, only in memory", private(memoryOf(modelA, tokens(9, 50))),
			"org/A  50/50 memory private; org/A one 700/0; org/A other format 700/0; org/A two " +
				"800/0; org/B elsewhere 700/0"},
		{"the other model", memoryOf(modelB, one),
			"org/A one 700/0; org/A other format 700/0; org/A two 800/0; org/B elsewhere 700/700"},
		{"a model that stored nothing",
			memoryOf(engine.StoredModel{Fingerprint: "fc", Name: "C"}, one),
			"C text 1000 700/700 memory; " + onDisk},
	}
	for _, k := range cases {
		list, err := c.List(k.memory)
		if err != nil {
			t.Fatal(err)
		}
		if got := lines(list); got != k.want {
			t.Errorf("%s:\n got %s\nwant %s", k.name, got, k.want)
		}
		if !list.Stats.On || list.Stats.Entries == 0 {
			t.Errorf("%s: statistics %+v", k.name, list.Stats)
		}
	}
	var none *Cache
	if list, err := none.List(memoryOf(modelA, one)); err != nil ||
		lines(list) != "org/A text 1000 700/700 memory" || list.Stats.On {
		t.Errorf("with the cache off: %v, %v", list, err)
	}
	if list, err := none.List(nil); err != nil || list.Conversations == nil ||
		len(list.Conversations) != 0 {
		t.Errorf("with the cache off, and without a model: %v, %v", list, err)
	}
}

// TestListWhileItGrows: if a conversation's key changes before its tokens are compared, List tries
// again.
func TestListWhileItGrows(t *testing.T) {
	c := open(t, t.TempDir())
	text := tokens(1, 512)
	save(t, c, modelA, "one", text)
	stored, err := c.store.Conversations(blockstore.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	m := memoryOf(modelA, text)
	mark := func() (complete bool) {
		list := make([]Conversation, len(stored))
		if complete, err = c.markInMemory(list, stored, m, make([]bool, 1)); err != nil {
			t.Fatal(err)
		}
		return complete
	}
	if !mark() {
		t.Error("the list is not complete, although nothing has changed")
	}
	save(t, c, modelA, "one", append(slices.Clone(text), tokens(2, 300)...))
	if mark() {
		t.Error("the list is complete, although a listed key no longer exists")
	}
	if list, err := c.List(m); err != nil || lines(list) != "org/A one 812/512" {
		t.Errorf("listed %s, %v", lines(list), err)
	}
}

// TestShowPinRemove shows, pins and removes one conversation.
func TestShowPinRemove(t *testing.T) {
	c := open(t, t.TempDir())
	text := tokens(1, 600)
	save(t, c, modelA, "one", text)
	save(t, c, modelA, "two", append(slices.Clone(text[:512]), 1, 2, 3))
	list, err := c.List(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := ""
	for _, s := range list.Conversations {
		if s.Title == "one" {
			key = s.Key
		}
	}
	d, err := c.Show(key[:8], memoryOf(modelA, text[:300]))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range d.Entries {
		kinds = append(kinds, fmt.Sprintf("%s %d-%d %t", e.Kind, e.From, e.To, e.Shared))
	}
	if got := strings.Join(kinds,
		", "); got != "block 0-256 true, block 256-512 true, tail 512-600 false" {
		t.Errorf("entries %s", got)
	}
	if d.Key != key || d.MemoryTokens != 300 || d.Format != "K8 V4" || d.Bytes <= 0 ||
		d.SharedBytes <= d.Bytes || d.CreatedAtUnixMs <= 0 || d.LastHitAtUnixMs != 0 {
		t.Errorf("detail %+v", d.Conversation)
	}
	if err := c.Pin(key, true); err != nil {
		t.Fatal(err)
	}
	if d, _ := c.Show(key, nil); !d.Pinned || d.MemoryTokens != 0 {
		t.Errorf("after pinning, without a model: %+v", d.Conversation)
	}
	if err := c.Pin(key, false); err != nil {
		t.Fatal(err)
	}
	if d, _ := c.Show(key, nil); d.Pinned {
		t.Error("the conversation is still pinned")
	}
	removed, err := c.Remove(key)
	if err != nil || removed.Entries != 1 || removed.Bytes != d.Bytes {
		t.Errorf("removed %+v, %v; want the tail of %d bytes", removed, err, d.Bytes)
	}
	if list, _ := c.List(nil); lines(list) != "org/A two 515/0" {
		t.Errorf("left: %s", lines(list))
	}
}

// TestErrors: errors are Problems with the right code.
func TestErrors(t *testing.T) {
	c := open(t, t.TempDir())
	var none *Cache
	for name, k := range map[string]struct {
		err  error
		code problem.Code
		want string
	}{
		"show":      {second(c.Show("abcdef", nil)), problem.NotFound, `begins with "abcdef"`},
		"too short": {second(c.Show("ab", nil)), problem.NotFound, "at least 4 digits"},
		"no key":    {second(c.Show("../../etc", nil)), problem.NotFound, "No conversation"},
		"remove":    {second(c.Remove("abcdef")), problem.NotFound, ""},
		"pin":       {c.Pin("abcdef", true), problem.NotFound, ""},
		"clear":     {second(c.Clear("org/A")), problem.NotFound, "the cache is empty"},
		"show, off": {second(none.Show("abcdef", nil)), problem.NotFound,
			"The cache on disk is off"},
		"remove, off": {second(none.Remove("abcdef")), problem.NotFound,
			"The cache on disk is off"},
		"pin, off":   {none.Pin("abcdef", true), problem.NotFound, "The cache on disk is off"},
		"clear, off": {second(none.Clear("")), problem.NotFound, "The cache on disk is off"},
		"ambiguous": {problemOf(fmt.Errorf("x: %w", blockstore.ErrAmbiguous), "abcd"),
			problem.BadRequest, "more digits of the key"},
		"anything else": {problemOf(fmt.Errorf("disk on fire"), ""), problem.Internal,
			"disk on fire"},
	} {
		if p := problem.From(k.err); k.err == nil || p.Code != k.code ||
			!strings.Contains(k.err.Error(), k.want) {
			t.Errorf("%s: %v, want %s with %q", name, k.err, k.code, k.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestClear(t *testing.T) {
	c := open(t, t.TempDir())
	save(t, c, modelA, "one", tokens(1, 300))
	save(t, c, modelB, "two", tokens(2, 300))
	save(t, c, engine.StoredModel{Fingerprint: "fc", Format: "f16", Name: "org/C"}, "three",
		tokens(3, 300))
	if _, err := c.Clear("nobody"); err == nil || !strings.Contains(err.Error(), "it has ") ||
		!strings.Contains(err.Error(), "org/A") {
		t.Errorf("clearing an unknown model: %v", err)
	}
	if r, err := c.Clear("ORG/a"); err != nil || r.Entries != 2 || r.Bytes <= 0 {
		t.Errorf("by name: %+v, %v", r, err)
	}
	if r, err := c.Clear("fb"); err != nil || r.Entries != 2 {
		t.Errorf("by fingerprint: %+v, %v", r, err)
	}
	if list, _ := c.List(nil); lines(list) != "org/C three 300/0" {
		t.Errorf("left: %s", lines(list))
	}
	if r, err := c.Clear(""); err != nil || r.Entries != 2 {
		t.Errorf("all: %+v, %v", r, err)
	}
	if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("left: %+v", s)
	}
}
