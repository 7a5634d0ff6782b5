package blockstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// family saves two conversations with states that share two blocks, and one conversation of another
// model.
func family(t *testing.T, s *Store) (v *View, a, b []int32) {
	t.Helper()
	v = s.Model(testModel)
	a = numbers(1, 700)
	b = join(a, 600, numbers(2, 300))
	for _, n := range []int{300, 620, 650, 700} { // grows with each turn and leaves tails behind
		q := sequence(a[:n], true, n)
		q.Title = fmt.Sprintf("turn %d", n)
		if saved := save(t, v, q); saved.Err != nil {
			t.Fatal(saved.Err)
		}
	}
	q := sequence(b, true, 512, 900)
	q.Title = "fork"
	save(t, v, q)
	save(t, s.Model(Model{"other", "f16", "Other 2B"}), sequence(numbers(3, 100), true))
	return v, a, b
}

func titles(list []Conversation) string {
	var text []string
	for _, c := range list {
		text = append(text, c.Title)
	}
	slices.Sort(text)
	return strings.Join(text, ", ")
}

func TestConversations(t *testing.T) {
	clock := newClock()
	o := options(t)
	o.now = clock.Now
	s := open(t, t.TempDir(), o)
	v, a, _ := family(t, s)
	clock.add(1)
	// The deepest entry of the prefix is the last tail of a.
	if err := load(v, a, v.Find(a, 690, 0, false)); err != nil {
		t.Fatal(err)
	}
	list, err := s.Conversations(Filter{})
	if err != nil || titles(list) != "a conversation, fork, turn 700" {
		t.Fatalf("%s, %v", titles(list), err)
	}
	first := list[0]
	// Blocks and tail of 690 tokens at 0.01 s.
	if first.Title != "turn 700" || first.Hits != 1 || first.Tokens != 700 ||
		first.Model != "Test 1B" || !first.LastHit.Equal(clock.Now()) ||
		first.SecondsSaved < 6.899 || first.SecondsSaved > 6.901 ||
		!first.Created.Equal(clock.Now().AddDate(0, 0, -1)) {
		t.Errorf("%+v", first)
	}
	// Every entry is unshared, or shared by both conversations of the first model.
	var unshared, shared int64
	for _, c := range list {
		unshared += c.Bytes
		shared = max(shared, c.SharedBytes)
	}
	if st := s.Stats(); unshared+shared != st.Bytes ||
		st.BytesByModel["other"]+st.BytesByModel["fp"] != st.Bytes {
		t.Errorf("%d unshared and %d shared bytes, stats %+v", unshared, shared, st)
	}
	if list, err := s.Conversations(Filter{Fingerprint: "other"}); err != nil || len(list) != 1 ||
		list[0].Model != "Other 2B" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := s.Conversations(Filter{Limit: 2}); err != nil || len(list) != 2 {
		t.Errorf("%d conversations, %v", len(list), err)
	}
}

func TestShow(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v, a, b := family(t, s)
	end := func(tokens []int32) string {
		p := v.Find(tokens, len(tokens), 0, false)
		return p.Blocks[len(p.Blocks)-1].Entry.Key.String()
	}
	d, err := s.Show(end(a)[:10])
	if err != nil || !slices.Equal(d.TokenIDs(), a) {
		t.Fatalf("%+v, %v", d, err)
	}
	text := ""
	for _, e := range d.Entries {
		text += fmt.Sprintf("%s %d+%d %v; ", e.Kind, e.Position, e.Tokens, e.Shared)
	}
	// The tail at 300 is attached to the second block. The tails at 620 and 650 are attached to the
	// last tail.
	want := "block 0+256 true; state 256+44 true; tail 256+44 true; block 256+256 true; " +
		"state 512+0 true; tail 512+108 false; state 512+108 false; " +
		"tail 512+138 false; state 512+138 false; tail 512+188 false; state 512+188 false; "
	if sorted(text) != sorted(want) {
		t.Errorf("entries\n%s, expected\n%s", text, want)
	}
	if d, err := s.Show(strings.ToUpper(end(b))); err != nil || d.Title != "fork" ||
		!slices.Equal(d.TokenIDs(), b) {
		t.Errorf("%+v, %v", d.Conversation, err)
	}
	// A conversation is also found by the key that it had before it grew.
	if d, err := s.Show(end(a[:650])); err != nil || d.Tokens != 700 {
		t.Errorf("%+v, %v", d.Conversation, err)
	}
	for _, c := range []struct {
		prefix string
		want   error
	}{{"", ErrNotFound}, {end(a)[:3], ErrNotFound}, {"0000000000", ErrNotFound},
		{"../../etc", ErrNotFound}, {end(a) + "0", ErrNotFound}, {"%%%%", ErrNotFound}} {
		if _, err := s.Show(c.prefix); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, expected %v", c.prefix, err, c.want)
		}
	}
}

func sorted(list string) string {
	parts := strings.Split(list, "; ")
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func TestShowAmbiguous(t *testing.T) {
	a, b := &node{key: Key{0xab, 0xcd, 1}}, &node{key: Key{0xab, 0xcd, 2}}
	a.leaf, b.leaf = a, b
	f := &forest{nodes: []*node{a, b}}
	if _, err := f.resolve("abcd"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("got %v, expected ErrAmbiguous", err)
	}
	if e, err := f.resolve("abcd02"); err != nil || e != b {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestRemove(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	v, a, b := family(t, s)
	before := s.Stats()
	list, err := s.Conversations(Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var fork Conversation
	for _, c := range list {
		if c.Title == "fork" {
			fork = c
		}
	}
	removed, err := s.Remove(fork.Key.String()[:12])
	// The unshared entries are a block, a tail and the state at its end.
	if err != nil || removed.Bytes != fork.Bytes || removed.Entries != 3 {
		t.Errorf("removed %+v of %+v, %v", removed, fork, err)
	}
	if st := s.Stats(); st.Bytes != before.Bytes-removed.Bytes {
		t.Errorf("%d bytes are left of %d", st.Bytes, before.Bytes)
	}
	if got, other := v.Find(b, 900, 0, false).Tokens, v.Find(a, 700, 0, true).Tokens; got != 600 ||
		other != 700 {
		t.Errorf("found %d tokens of the removed conversation, %d of the other one", got, other)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if removed, err := s.RemoveModel("other"); err != nil || removed.Entries != 1 {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if got := v.Find(a, 700, 0, true).Tokens; got != 700 {
		t.Errorf("found %d tokens after another model was removed", got)
	}
	removed, err = s.Clear()
	if st := s.Stats(); err != nil || removed.Entries == 0 || st.Entries != 0 || st.Bytes != 0 ||
		len(entryFiles(t, s.dir)) != 0 {
		t.Errorf("cleared %+v, %v, left %+v", removed, err, st)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestPin checks that a pinned conversation and its states are never evicted, even after it has
// grown. Once unpinned, it is evicted like any other.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	o := options(t)
	o.MaxBytes = 14 * blockBytes(t)
	s := open(t, dir, o)
	v := s.Model(testModel)
	seed := 100
	flood := func() {
		for range 20 {
			seed++
			save(t, v, sequence(numbers(seed, 256), false))
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	pinned := func() (n int) {
		list, err := s.Conversations(Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Pinned {
				n++
			}
		}
		return n
	}
	a := numbers(1, 1300)
	save(t, v, sequence(a[:600], true, 256, 600))
	p := v.Find(a, 600, 0, false)
	key := p.Blocks[2].Entry.Key.String()
	if err := s.Pin(key[:6], true); err != nil {
		t.Fatal(err)
	}
	flood()
	if got := v.Find(a, 600, 0, true).Tokens; got != 600 || pinned() != 1 {
		t.Fatalf("found %d tokens of the pinned conversation, %d are pinned", got, pinned())
	}
	// The conversation grows twice, in another process.
	s2 := open(t, dir, o)
	save(t, s2.Model(testModel), sequence(a[:1000], true, 1000))
	save(t, s2.Model(testModel), sequence(a, true, 1300))
	flood()
	if got := v.Find(a, 1300, 0, true).Tokens; got != 1300 || pinned() != 1 {
		t.Fatalf("found %d tokens of the grown conversation, %d are pinned", got, pinned())
	}
	var marked, protected int
	if err := s.index.db.QueryRow("SELECT sum(pin), sum(pinned) FROM entries").Scan(&marked,
		&protected); err != nil || marked != 1 || protected != 6+4 {
		t.Errorf("%d marks protect %d entries, %v; expected 1 mark, 6 blocks and tails, 4 states",
			marked, protected, err)
	}
	// Shared entries stay protected when a fork is unpinned.
	b := join(a, 256, numbers(50, 100))
	save(t, v, sequence(b, true))
	forked := v.Find(b, 356, 0, false).Blocks[1].Entry.Key.String()
	for _, on := range []bool{true, false} {
		if err := s.Pin(forked, on); err != nil {
			t.Fatal(err)
		}
	}
	flood()
	if got := v.Find(a, 1300, 0, true).Tokens; got != 1300 {
		t.Errorf("%d tokens are left after a fork was unpinned", got)
	}
	if got := v.Find(b, 356, 0, false).Tokens; got != 256 {
		t.Errorf("%d tokens of the fork are left", got)
	}
	// The first tail was evicted after the conversation grew, so its key is unknown.
	if err := s.Pin(key[:6], false); err == nil {
		t.Error("an evicted key was found")
	}
	end := v.Find(a, 1300, 0, false)
	if err := s.Pin(end.Blocks[len(end.Blocks)-1].Entry.Key.String()[:6], false); err != nil {
		t.Fatal(err)
	}
	flood()
	if got := v.Find(a, 1300, 0, false).Tokens; got != 0 || pinned() != 0 {
		t.Errorf("found %d tokens of the unpinned conversation, %d are pinned", got, pinned())
	}
}

// TestPinnedWritesPastQuarter checks that a pinned conversation may use the whole daily limit.
func TestPinnedWritesPastQuarter(t *testing.T) {
	size := blockBytes(t)
	o := options(t)
	o.DailyWriteBytes = 11 * size
	s := open(t, t.TempDir(), o)
	v := s.Model(testModel)
	a := numbers(1, 1024)
	save(t, v, sequence(a[:512], false))
	if saved := save(t, v, sequence(a[:768], false)); !errors.Is(saved.Err, ErrBudget) {
		t.Fatalf("saved %+v", saved)
	}
	p := v.Find(a, 512, 0, false)
	if err := s.Pin(p.Blocks[1].Entry.Key.String(), true); err != nil {
		t.Fatal(err)
	}
	if saved := save(t, v, sequence(a, false)); saved.Err != nil || saved.Blocks != 2 {
		t.Errorf("saved %+v", saved)
	}
}

// TestTwoProcessesBrowse checks that a second process, such as a command next to a server, sees and
// changes the same entries.
func TestTwoProcessesBrowse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(t))
	v, a, _ := family(t, s)
	if err := load(v, a, v.Find(a, 700, 0, true)); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Visit, o.MaxBytes = true, 1
	visitor := open(t, dir, o)
	s.Stats() // writes the hits to the index
	list, err := visitor.Conversations(Filter{})
	if err != nil || titles(list) != "a conversation, fork, turn 700" {
		t.Fatalf("%s, %v", titles(list), err)
	}
	if st := visitor.Stats(); st.Hits != 1 || st.Entries != s.Stats().Entries {
		t.Errorf("stats %+v", st)
	}
	if err := visitor.Pin(list[0].Key.String(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := visitor.Remove(list[1].Key.String()); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Conversations(Filter{}); err != nil || len(list) != 2 {
		t.Errorf("%d conversations, %v", len(list), err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestLonger checks that a tail is attached to the deepest entries that continue its tokens, not to
// shorter tails.
func TestLonger(t *testing.T) {
	var group []*node
	for _, tokens := range [][]int32{{1}, {1, 2}, {1, 2, 3}, {1, 3}, {2}} {
		group = append(group, &node{secrets: secrets{codes: ordered(tokens)}})
	}
	for i, want := range [][]*node{{group[2], group[3]}, {group[2]}, nil, nil, nil} {
		if got := longer(group, group[i]); !slices.Equal(got, want) {
			t.Errorf("node %d has %d hosts, expected %d", i, len(got), len(want))
		}
	}
}

// TestPinOfLostEntries loses an entry in the middle of a pinned conversation, stores it again, and
// then loses the end with the mark, which moves to the entry that is new.
func TestPinOfLostEntries(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, options(t))
	v := s.Model(testModel)
	a := numbers(1, 768)
	save(t, v, sequence(a, false))
	blocks := v.Find(a, 768, 0, false).Blocks
	if err := s.Pin(blocks[2].Entry.Key.String(), true); err != nil {
		t.Fatal(err)
	}
	lose := func(e Entry) {
		t.Helper()
		for _, path := range entryFiles(t, dir) {
			if strings.HasPrefix(filepath.Base(path), e.Key.String()) {
				if err := os.Truncate(path, 10); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.readEntry(t.Context(), reading{entry: e}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("read a damaged entry: %v", err)
		}
	}
	lose(blocks[1].Entry)
	save(t, v, sequence(a[:512], false))
	lose(blocks[2].Entry)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	list, err := s.Conversations(Filter{})
	if err != nil || len(list) != 1 || !list[0].Pinned {
		t.Errorf("conversations %+v, %v, expected a pinned one", list, err)
	}
}
