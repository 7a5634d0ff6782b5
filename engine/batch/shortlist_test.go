package batch

import (
	"slices"
	"testing"
)

// TestShortlist: a vocabulary of 20 tokens, of which the list has the first 3, the last 2 and two
// others.
func TestShortlist(t *testing.T) {
	s := Shortlist{Vocab: 20, First: 3, Last: 2, Between: []int32{9, 4}}
	var got, ends []int32
	for i := range int32(s.Size()) {
		got = append(got, s.Token(i))
	}
	for token := range int32(s.Vocab) {
		if s.Ends(token) {
			ends = append(ends, token)
		}
	}
	if want := []int32{0, 1, 2, 18, 19, 9, 4}; !slices.Equal(got, want) {
		t.Errorf("tokens %d, expected %d", got, want)
	}
	if want := []int32{0, 1, 2, 18, 19}; !slices.Equal(ends, want) {
		t.Errorf("tokens at the ends %d, expected %d", ends, want)
	}
}
