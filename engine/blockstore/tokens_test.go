package blockstore

import (
	"maps"
	"slices"
	"testing"
)

// TestEachTokens checks that EachTokens returns every conversation of the selected model, and no
// others.
func TestEachTokens(t *testing.T) {
	s := open(t, t.TempDir(), options(t))
	one, other := s.Model(Model{Fingerprint: "one", Format: "f"}),
		s.Model(Model{Fingerprint: "other", Format: "f"})
	a := numbers(1, 3*BlockTokens+17)
	b := append(slices.Clone(a[:2*BlockTokens]), numbers(2, 40)...)
	save(t, one, sequence(a, true))
	save(t, one, sequence(b, true))
	save(t, other, sequence(a, true))

	list, err := s.Conversations(Filter{Fingerprint: "one"})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d conversations, %v; want 2", len(list), err)
	}
	got := map[Key][]int32{}
	if err := s.EachTokens(Filter{Fingerprint: "one"},
		func(k Key, tokens []int32) { got[k] = tokens }); err != nil {
		t.Fatal(err)
	}
	want := map[Key][]int32{}
	for _, c := range list {
		d, err := s.Show(c.Key.String())
		if err != nil {
			t.Fatal(err)
		}
		want[c.Key] = d.TokenIDs()
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the tokens of %d conversations differ from those of Show", len(got))
	}
	for _, tokens := range got {
		if !slices.Equal(tokens, a) && !slices.Equal(tokens, b) {
			t.Errorf("got %d tokens that were never saved", len(tokens))
		}
	}
	n := 0
	if err := s.EachTokens(Filter{}, func(Key, []int32) { n++ }); err != nil || n != 3 {
		t.Errorf("all models have %d conversations, %v; want 3", n, err)
	}
}
