package sample

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// words are Tokens for tests: token i contains the text at i, and those in ends end an answer.
type words struct {
	texts []string
	ends  []uint64
}

func (w words) Containing(texts []string) []uint64 {
	mask := make([]uint64, (len(w.texts)+63)/64)
	for i, text := range w.texts {
		if slices.Contains(texts, text) {
			mask[i/64] |= 1 << (i % 64)
		}
	}
	return mask
}

func (w words) Ends() []uint64 { return w.ends }

// TestDRY compares penalties with results computed by hand. The vocabulary is a b c d and a line
// break, tokens 0 to 4.
func TestDRY(t *testing.T) {
	vocabulary := words{texts: []string{"a", "b", "c", "d", "\n"}}
	tests := []struct {
		name     string
		dry      DRY
		observed []int32
		want     []float32 // of logits that are all 0
	}{
		{"off", DRY{}, []int32{0, 1, 2, 0, 1}, []float32{0, 0, 0, 0, 0}},
		// "ab" came before c: length 2 costs 1·1.75^0.
		{"two tokens", DRY{Multiplier: 1}, []int32{0, 1, 2, 0, 1}, []float32{0, 0, -1, 0, 0}},
		{"one token is allowed", DRY{Multiplier: 1}, []int32{0, 1, 2, 0},
			[]float32{0, 0, 0, 0, 0}},
		{"unless it is not", DRY{Multiplier: 1, AllowedTokens: 1}, []int32{0, 1, 2, 0},
			[]float32{0, -1, 0, 0, 0}},
		// "abc" came before d: 0.5·2^1
		{"three tokens", DRY{Multiplier: 0.5, Base: 2}, []int32{0, 1, 2, 3, 0, 1, 2},
			[]float32{0, 0, 0, -1, 0}},
		// After "ab" came c and then d; the longer match counts for c: "cab" came before c.
		{"the longest match counts", DRY{Multiplier: 1, Base: 2},
			[]int32{2, 0, 1, 2, 0, 1, 3, 2, 0, 1}, []float32{0, 0, -2, -2, 0}},
		// "aaa" at 0 and at 1: the suffix "aaa" ends at 2 too, so the next a repeats 3 tokens.
		{"overlapping matches", DRY{Multiplier: 1, Base: 2}, []int32{0, 0, 0, 0},
			[]float32{-2, 0, 0, 0, 0}},
		{"a break within", DRY{Multiplier: 1}, []int32{0, 4, 1, 2, 0, 4, 1},
			[]float32{0, 0, 0, 0, 0}},
		{"another break", DRY{Multiplier: 1, Base: 2, Breakers: []string{"d"}},
			[]int32{0, 4, 1, 2, 0, 4, 1}, []float32{0, 0, -2, 0, 0}},
		{"no breaks", DRY{Multiplier: 1, Breakers: []string{}}, []int32{0, 1, 4, 0, 1},
			[]float32{0, 0, 0, 0, -1}},
		{"a break is never less likely", DRY{Multiplier: 1}, []int32{0, 1, 4, 0, 1},
			[]float32{0, 0, 0, 0, 0}},
		{"only the last tokens count", DRY{Multiplier: 1, ContextTokens: 4},
			[]int32{0, 1, 2, 0, 1}, []float32{0, 0, 0, 0, 0}},
		{"five of them", DRY{Multiplier: 1, ContextTokens: 5}, []int32{0, 1, 2, 0, 1},
			[]float32{0, 0, -1, 0, 0}},
		{"ids outside the vocabulary", DRY{Multiplier: 1}, []int32{-1, 9, 9, -1, 9},
			[]float32{0, 0, 0, 0, 0}},
	}
	for _, tt := range tests {
		s := New(Params{DRY: tt.dry}, 5, vocabulary)
		for _, id := range tt.observed {
			s.Observe(id)
		}
		logits := make([]float32, 5)
		mustSample(t, s, logits)
		if !slices.Equal(logits, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, logits, tt.want)
		}
	}
}

// TestDRYByComparing compares the matches of random texts, at each token, with those found by
// comparing every earlier position token by token.
func TestDRYByComparing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		vocab, context := 2+r.IntN(6), r.IntN(40)
		breakers := []uint64{r.Uint64() & r.Uint64() & r.Uint64()}
		d := newRepeats(DRY{Multiplier: 1, AllowedTokens: 1, ContextTokens: context,
			Breakers: []string{}}, nil)
		d.breakers = breakers
		var text []int32
		for range 100 {
			token := int32(r.IntN(vocab))
			text = append(text, token)
			d.push(token)
			got := map[int32]int{}
			for _, i := range d.ends {
				got[i] = int(d.match[i])
			}
			if want := matches(text, breakers, context); !maps.Equal(got, want) {
				t.Fatalf("text %v, breakers %b, last %d: got %v, want %v", text, breakers[0],
					context, got, want)
			}
		}
	}
}

// matches returns the length of the match at each position that has one.
func matches(text []int32, breakers []uint64, context int) map[int32]int {
	found := map[int32]int{}
	last, from := len(text)-1, 0
	if context > 0 {
		from = max(0, len(text)-context)
	}
	for i := from; i < last; i++ {
		n := 0
		for i-n >= from && text[i-n] == text[last-n] && !has(breakers, text[i-n]) {
			n++
		}
		if n > 0 {
			found[int32(i)] = n
		}
	}
	return found
}

// TestDRYStaysFinite checks that a repetition of any length leaves finite logits.
func TestDRYStaysFinite(t *testing.T) {
	s := New(Params{DRY: DRY{Multiplier: 100, Base: 100}}, 2, nil)
	for range 5000 {
		s.Observe(0)
	}
	logits := []float32{5, 1}
	if got := mustSample(t, s, logits); got.Token != 1 || math.IsInf(float64(logits[0]), 0) {
		t.Errorf("got token %d, logits %v; want token 1 and finite logits", got.Token, logits)
	}
}

// TestDRYBounded: a text of one token takes bounded work for each of its tokens.
func TestDRYBounded(t *testing.T) {
	r := newRepeats(DRY{Multiplier: 1}, nil)
	for range 3 * maxPlaces {
		if r.push(7); len(r.ends) > maxPlaces {
			t.Fatalf("%d places after %d tokens, expected at most %d", len(r.ends),
				len(r.tokens), maxPlaces)
		}
	}
	r.push(8)
	if len(r.ends) > 0 || slices.ContainsFunc(r.match, func(n uint16) bool { return n > 0 }) {
		t.Errorf("%d places after a new token", len(r.ends))
	}
}

// BenchmarkDRY is one token after 100,000 tokens of which a tenth are equal.
func BenchmarkDRY(b *testing.B) {
	s := New(Params{DRY: DRY{Multiplier: 1}}, 1000, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		s.Observe(int32(max(0, r.IntN(1000)-100)))
	}
	logits := make([]float32, 1000)
	b.ReportAllocs()
	for b.Loop() {
		s.Observe(int32(max(0, r.IntN(1000)-100)))
		s.repeats.lower(logits)
	}
}
