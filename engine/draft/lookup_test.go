package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []int32
		match  int
		want   []int32
	}{
		{"nothing repeats", []int32{1, 2, 3, 4, 5, 6}, 0, nil},
		{"two equal tokens are too few", []int32{1, 2, 9, 1, 2}, 0, nil},
		{"what followed", []int32{1, 2, 3, 4, 5, 6, 7, 1, 2, 3}, 3, []int32{4, 5, 6, 7}},
		{"up to the end", []int32{1, 2, 3, 1, 2, 3}, 3, []int32{1, 2, 3}},
		{"the latest of equal ones", []int32{1, 2, 3, 4, 0, 1, 2, 3, 5, 8, 1, 2, 3}, 3,
			[]int32{5, 8, 1, 2}},
		{"the longest before the latest", []int32{9, 1, 2, 3, 4, 0, 1, 2, 3, 5, 9, 1, 2, 3}, 4,
			[]int32{4, 0, 1, 2}},
		{"one token again and again", []int32{7, 7, 7, 7, 7, 7}, 5, []int32{7}},
	} {
		l := NewLookup(nil, 4)
		l.Extend(c.tokens, nil, nil)
		if got := l.Propose(c.tokens, 4); l.Match() != c.match || !slices.Equal(got, c.want) {
			t.Errorf("%s: match %d, proposal %d, expected %d and %d", c.name, l.Match(), got,
				c.match, c.want)
		}
	}
}

// TestLookupFollows goes on with a copy, though a later place has the same three tokens.
func TestLookupFollows(t *testing.T) {
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 0, 3, 4, 5, 9, 0, 1, 2, 3}
	l := NewLookup(nil, 100)
	l.Extend(tokens, nil, nil)
	for _, next := range []int32{4, 5} {
		tokens = append(tokens, next)
		l.Extend(tokens, nil, nil)
	}
	if got := l.Propose(tokens, 2); l.Match() != 5 || !slices.Equal(got, []int32{6, 7}) {
		t.Errorf("match %d, proposal %d", l.Match(), got)
	}
}

// TestLookupOfText: what followed in a text is proposed, up to its end, and not what begins the
// sequence.
func TestLookupOfText(t *testing.T) {
	text := []int32{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		tokens []int32
		match  int
		want   []int32
	}{
		{[]int32{9, 9, 1, 2, 3}, 3, []int32{4, 5, 6}},
		{[]int32{9, 1, 2, 3, 4}, 4, []int32{5, 6}},
		{[]int32{4, 5, 6}, 0, nil},
		{[]int32{1, 2, 3, 4, 5, 6}, 0, nil},
		{[]int32{2, 3, 4, 7, 2, 3, 4}, 3, []int32{7, 2, 3, 4}}, // the sequence is later
	} {
		l := NewLookup(text, 10)
		l.Extend(c.tokens, nil, nil)
		if got := l.Propose(c.tokens, 4); l.Match() != c.match || !slices.Equal(got, c.want) {
			t.Errorf("%d: match %d, proposal %d, expected %d and %d", c.tokens, l.Match(), got,
				c.match, c.want)
		}
	}
}

// TestLookupPrefersText: a text is preferred to the same one in the prompt, but not to a longer
// match there, nor to what the answer has said.
func TestLookupPrefersText(t *testing.T) {
	text := []int32{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		prompt, answer []int32
		predicted      bool
	}{
		{[]int32{8, 2, 3, 4, 7}, []int32{9, 2, 3, 4}, true},
		{[]int32{8, 9, 2, 3, 4, 7}, []int32{9, 2, 3, 4}, false}, // longer
		{[]int32{8}, []int32{2, 3, 4, 7, 2, 3, 4}, false},
	} {
		l := NewLookup(text, 20)
		l.Prompt = len(c.prompt)
		tokens := slices.Concat(c.prompt, c.answer)
		l.Extend(tokens, nil, nil)
		if l.Predicted() != c.predicted {
			t.Errorf("%d: a part of the text: %t", tokens, l.Predicted())
		}
	}
}

// TestLookupLatestInText: of equally long matches in a text, the latest is followed, also if the
// prompt has one.
func TestLookupLatestInText(t *testing.T) {
	text := []int32{1, 2, 3, 4, 1, 2, 3, 5, 6}
	for _, prompt := range [][]int32{nil, {7, 1, 2, 3, 8}} {
		l := NewLookup(text, 20)
		l.Prompt = len(prompt)
		tokens := slices.Concat(prompt, []int32{9, 1, 2, 3})
		l.Extend(tokens, nil, nil)
		if got, want := l.Propose(tokens, 2), []int32{5, 6}; !slices.Equal(got, want) {
			t.Errorf("after %d: proposed %d, expected %d", tokens, got, want)
		}
	}
}

// TestLookupIsSound extends random sequences in pieces. What precedes a proposal equals the end of
// the sequence, and no other of the few earlier places has a longer match.
func TestLookupIsSound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 400 {
		letters := 2 + r.Int32N(20)
		var tokens []int32
		l := NewLookup(nil, r.IntN(300))
		for len(tokens) < 200 {
			for range 1 + r.IntN(3) {
				tokens = append(tokens, r.Int32N(letters))
			}
			before := l.Match()
			l.Extend(tokens, nil, nil)
			if l.Match() == 0 {
				continue
			}
			found++
			at, n := l.at, min(l.Match(), longest)
			if !slices.Equal(tokens[at-n:at], tokens[len(tokens)-n:]) {
				t.Fatalf("%d: a match of %d before %d", tokens, n, at)
			}
			places, longer := 0, 0
			for i := gram; i < len(tokens); i++ {
				if m := common(tokens[:i], tokens); m >= gram {
					places, longer = places+1, max(longer, m)
				}
			}
			if before == 0 && places <= candidates && letters > 8 && longer > l.Match() {
				t.Fatalf("%d: a match of %d, one of %d exists", tokens, l.Match(), longer)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d matches", found)
	}
}

// TestHitsOfLookup: of a sequence that repeats, nearly all expected tokens come.
func TestHitsOfLookup(t *testing.T) {
	var all, h Hits
	h.Before = &all
	var tokens []int32
	for i := range int32(300) {
		tokens = append(tokens, i%30)
	}
	l := NewLookup(nil, 300)
	l.Extend(tokens[:60], nil, nil)
	if h.Rate(10) != firstHits[3] {
		t.Errorf("rate %v before the first observation", h.Rate(10))
	}
	l.Extend(tokens, &h, nil)
	for _, known := range []*Hits{&h, &all} {
		if got := known.Rate(60); got < 0.95 {
			t.Errorf("rate %v, expected nearly 1", got)
		}
	}
	for range 100 {
		h.Observe(60, false)
	}
	if got := h.Rate(60); got > 0.75 {
		t.Errorf("rate %v after 100 misses", got)
	}
}

func BenchmarkExtend(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	tokens := make([]int32, 100_000)
	for i := range tokens {
		tokens[i] = r.Int32N(50)
	}
	for b.Loop() {
		NewLookup(nil, len(tokens)).Extend(tokens, nil, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tokens)), "ns/token")
}
