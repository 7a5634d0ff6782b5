package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// count returns the tokens from, from+1 and so on, below to.
func count(from, to int32) (tokens []int32) {
	for t := from; t < to; t++ {
		tokens = append(tokens, t)
	}
	return tokens
}

func TestOthers(t *testing.T) {
	var o Others
	o.Add("", count(100, 150), 0)
	o.Add("", slices.Concat(count(100, 150), count(300, 330)), 50) // its next turn
	o.Add("", count(500, 516), 0)                                  // nothing follows a gram
	o.Add("", nil, 25)                                             // a request that was preempted
	for _, c := range []struct {
		name   string
		tokens []int32
		match  int
		want   []int32
	}{
		{"what followed", slices.Concat(count(0, 9), count(110, 130)), 20, count(130, 138)},
		{"too few tokens", slices.Concat(count(0, 9), count(110, 125)), 0, nil},
		{"the next turn's tokens", count(130, 150), 16, count(300, 308)},
		{"up to the end", slices.Concat([]int32{7}, count(305, 327)), 22, count(327, 330)},
		{"at the end", count(310, 330), 0, nil},
		{"what is known is not added again", count(500, 516), 0, nil},
		{"a longer match of its own", slices.Concat(count(100, 120), []int32{9, 8},
			count(100, 120)), 20, []int32{9, 8, 100, 101, 102, 103, 104, 105}},
		{"a shorter match of its own", slices.Concat([]int32{117, 118, 119, 9}, count(100, 120)),
			20, count(120, 128)},
	} {
		l := NewLookup(nil, 100)
		l.Extend(c.tokens, nil, &o)
		if got := l.Propose(c.tokens, 8); l.Match() != c.match || !slices.Equal(got, c.want) {
			t.Errorf("%s: match %d, proposal %d, expected %d and %d", c.name, l.Match(), got,
				c.match, c.want)
		}
	}
}

// TestOthersFollowed goes on with a copy of another conversation, to its end, and learns its hits.
// When the conversation is forgotten meanwhile, nothing is expected any more.
func TestOthersFollowed(t *testing.T) {
	for _, forget := range []int32{0, 130} {
		var o Others
		o.Add("", count(100, 140), 0)
		tokens := count(100, 120)
		l, hits := NewLookup(nil, 100), Hits{}
		l.Extend(tokens, nil, &o)
		for next := int32(120); next < 140; next++ {
			if next == forget {
				o.Forget()
			}
			want := next
			if forget > 0 && next >= forget {
				want = 0
			}
			var got int32
			if l.Match() > 0 {
				got = l.Propose(tokens, 1)[0]
			}
			if got != want {
				t.Fatalf("before %d: %d is expected, want %d", next, got, want)
			}
			tokens = append(tokens, next)
			l.Extend(tokens, &hits, &o)
		}
		if l.Match() != 0 || hits.Rate(20) < 0.85 {
			t.Errorf("at the end: match %d, rate %g", l.Match(), hits.Rate(20))
		}
	}
}

// TestOthersOfOwners: owners have the same text with different ends. Each finds its own end, also
// when the others have added theirs later, and never another's. An owner without texts finds none,
// and neither does one whose text has been dropped.
func TestOthersOfOwners(t *testing.T) {
	text := count(100, 150)
	owners := []string{"", "a", "b"}
	found := map[string]int{}
	for range 3 { // in one of these, the slots of two grams may be the same by chance
		var o Others
		look := func(owner string) []int32 {
			l := NewLookup(nil, 100)
			l.Owner = owner
			l.Extend(text, nil, &o)
			return l.Propose(text, MaxTokens)
		}
		for i, owner := range owners {
			o.Add(owner, slices.Concat(text, count(int32(1000*i), int32(1000*i+9))), 0)
		}
		for i, owner := range owners {
			got := look(owner)
			if slices.Equal(got, count(int32(1000*i), int32(1000*i+min(9, MaxTokens)))) {
				found[owner]++
			} else if len(got) > 0 {
				t.Errorf("owner %q expects %d", owner, got)
			}
		}
		if got := look("c"); len(got) > 0 {
			t.Errorf("an owner without texts expects %d", got)
		}
		for range 8 {
			o.Add("c", count(5000, 5000+othersTokens/4), 0)
		}
		for _, owner := range owners {
			if got := look(owner); len(got) > 0 {
				t.Errorf("owner %q expects %d, which have been dropped", owner, got)
			}
		}
		if most := len(o.tokens)/(othersTokens/4) + 1; len(o.parts) > most ||
			cap(o.tokens) != othersTokens {
			t.Errorf("%d requests are held, of %d tokens; room for %d", len(o.parts), len(o.tokens),
				cap(o.tokens))
		}
	}
	for _, owner := range owners {
		if found[owner] == 0 {
			t.Errorf("owner %q never found its own text", owner)
		}
	}
}

// TestOthersIsSound adds random requests, more than are held. Each search finds the latest gram
// that is held and has a next token, or none if there is none; memory stays within its bound.
func TestOthersIsSound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var o Others
	var all []int32 // as o.tokens, from position 1 on
	found, dropped := 0, 0
	for range 60 {
		tokens := make([]int32, 1+r.IntN(20_000))
		for i := range tokens {
			tokens[i] = r.Int32N(3)
			if i >= 40 && r.IntN(50) > 0 {
				tokens[i] = tokens[i-40+r.IntN(2)]
			}
		}
		o.Add("", tokens, 0)
		if len(tokens) > othersGram {
			all = append(append(all, tokens...), separator)
		}
		if o.first+len(o.tokens) != 1+len(all) || cap(o.tokens) != othersTokens {
			t.Fatalf("positions up to %d, want %d; room for %d", o.first+len(o.tokens), 1+len(all),
				cap(o.tokens))
		}
		held := all[o.first-1:]
		for range 20 {
			at := othersGram + r.IntN(len(all)-othersGram)
			gram := all[at-othersGram : at]
			want := 0
			for n := len(held) - 1; n >= othersGram && want == 0; n-- {
				if held[n] != separator && slices.Equal(held[n-othersGram:n], gram) {
					want = o.first + n
				}
			}
			got, equal := o.search("", gram)
			switch {
			case got == 0: // a later gram may have the same hash
				dropped++
			case got != want || equal != othersGram:
				t.Fatalf("position %d with %d equal tokens, want %d", got, equal, want)
			default:
				found++
			}
		}
	}
	if found < 600 || dropped == 0 || o.first == 1 {
		t.Errorf("%d found, %d not, the first position is %d", found, dropped, o.first)
	}
}

// TestOthersForgets: nothing of what is forgotten stays in memory.
func TestOthersForgets(t *testing.T) {
	var o Others
	o.Add("", count(100, 150), 0)
	o.Forget()
	if rest := o.tokens[:50]; slices.Max(rest) != 0 {
		t.Errorf("memory has %d", rest)
	}
	if at, _ := o.search("", count(100, 130)); at != 0 {
		t.Errorf("found at %d", at)
	}
	o.Add("", count(200, 250), 0)
	if at, _ := o.search("", count(200, 230)); !slices.Equal(o.from(at), count(230, 238)) {
		t.Errorf("added afterwards: found at %d", at)
	}
}
