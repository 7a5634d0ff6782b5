package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// maskOf returns the mask of these tokens, with room for words*64.
func maskOf(words int, tokens ...int32) []uint64 {
	mask := make([]uint64, words)
	for _, t := range tokens {
		mask[t/64] |= 1 << (t % 64)
	}
	return mask
}

// TestMaskedLogprobs masks logits ln 1, ln 2, ln 4, ln 1. The probabilities are those among the
// allowed tokens, and the others are not listed.
func TestMaskedLogprobs(t *testing.T) {
	logits := []float32{0, float32(math.Ln2), 2 * float32(math.Ln2), 0}
	third := float32(math.Log(1. / 3))
	for _, c := range []struct {
		name    string
		allowed []int32
		params  Params
		want    []TokenLogprob // the first is chosen
	}{
		{"without the most likely", []int32{0, 1}, Params{Logprobs: 3},
			[]TokenLogprob{{1, third + float32(math.Ln2)}, {0, third}}},
		{"one token", []int32{3}, Params{Logprobs: 20}, []TokenLogprob{{3, 0}}},
		{"the filters keep no other token", []int32{3},
			Params{Logprobs: 4, Temperature: 1, TopK: 1, TopP: 0.1, MinP: 0.9},
			[]TokenLogprob{{3, 0}}},
		// ln 4 and 100·ln 1 would win by far.
		{"a bias does not unmask", []int32{0, 1},
			Params{Logprobs: 4, LogitBias: map[int32]float32{2: 100, 3: 100}},
			[]TokenLogprob{{1, third + float32(math.Ln2)}, {0, third}}},
		{"fewer listed than allowed", []int32{0, 1, 3}, Params{Logprobs: 1},
			[]TokenLogprob{{1, float32(math.Log(0.5))}}},
	} {
		s := New(c.params, len(logits), nil)
		s.SetMask(maskOf(1, c.allowed...))
		got := mustSample(t, s, slices.Clone(logits))
		same := func(a, b TokenLogprob) bool {
			return a.Token == b.Token && near(float64(a.Logprob), float64(b.Logprob))
		}
		if !slices.EqualFunc(got.Top, c.want, same) ||
			!same(TokenLogprob{got.Token, got.Logprob}, c.want[0]) {
			t.Errorf("%s: got %+v, want %v", c.name, got, c.want)
		}
	}
}

// TestMaskedTokens draws with random logits, masks and parameters. No masked token is chosen or
// listed, and every allowed token is listed as long as there is room.
func TestMaskedTokens(t *testing.T) {
	const vocab = 150 // the last of three words of a mask is not full
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		p := Params{Temperature: float32(random.IntN(3)), Seed: seed(uint64(n)),
			Logprobs: random.IntN(MaxLogprobs+2) - 1, TopK: random.IntN(10),
			TopP: random.Float32(), MinP: random.Float32() * 0.1, PresencePenalty: 2,
			LogitBias: map[int32]float32{int32(random.IntN(vocab)): 100}}
		s := New(p, vocab, nil)
		s.Observe(int32(random.IntN(vocab)))
		mask := make([]uint64, 1+random.IntN(3)) // shorter ones forbid the tokens beyond
		for range 1 + random.IntN(30) {
			token := random.IntN(min(vocab, 64*len(mask)))
			mask[token/64] |= 1 << (token % 64)
		}
		allowed := map[int32]bool{}
		for token := range int32(min(vocab, 64*len(mask))) {
			if mask[token/64]>>(token%64)&1 != 0 {
				allowed[token] = true
			}
		}
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = float32(random.NormFloat64() * 5)
		}
		s.SetMask(mask)
		got := mustSample(t, s, logits)
		if !allowed[got.Token] {
			t.Fatalf("%d: the token %d is masked", n, got.Token)
		}
		if want := min(max(p.Logprobs, 0), len(allowed)); len(got.Top) != want {
			t.Fatalf("%d: %d tokens are listed, want %d of %d", n, len(got.Top), want,
				len(allowed))
		}
		for _, top := range got.Top {
			if !allowed[top.Token] || math.IsInf(float64(top.Logprob), 0) {
				t.Fatalf("%d: the masked token %d is listed with %v", n, top.Token, top.Logprob)
			}
		}
	}
}

// TestFullMask: a mask that allows everything changes no bit of the results, and neither does a
// mask that has been taken away.
func TestFullMask(t *testing.T) {
	const vocab = 130
	random := rand.New(rand.NewPCG(3, 4))
	full := make([]uint64, (vocab+63)/64)
	for i := range full {
		full[i] = math.MaxUint64
	}
	for n := range 500 {
		p := Params{Temperature: float32(n%3) / 2, Seed: seed(uint64(n)), Logprobs: 5,
			TopP: 0.95, TopK: n % 50, RepetitionPenalty: 1.1}
		plain, masked := New(p, vocab, nil), New(p, vocab, nil)
		masked.Constrain()
		masked.SetMask(maskOf(1, 7))
		for step := range 4 {
			logits := make([]float32, vocab)
			for i := range logits {
				logits[i] = float32(random.NormFloat64() * 3)
			}
			if masked.SetMask(full); step%2 == 1 {
				masked.SetMask(nil)
			}
			want := mustSample(t, plain, slices.Clone(logits))
			got := mustSample(t, masked, logits)
			bits := math.Float32bits
			same := func(a, b TokenLogprob) bool {
				return a.Token == b.Token && bits(a.Logprob) == bits(b.Logprob)
			}
			if got.Token != want.Token || bits(got.Logprob) != bits(want.Logprob) ||
				!slices.EqualFunc(got.Top, want.Top, same) {
				t.Fatalf("%d, token %d: got %+v, want %+v", n, step, got, want)
			}
			plain.Observe(want.Token)
			masked.Observe(want.Token)
		}
	}
}

// TestMaskKeepsFaults: a broken row stays an error behind a mask, and so does a mask that allows
// nothing.
func TestMaskKeepsFaults(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		logits []float32
		mask   []uint64
	}{
		"NaN":                    {[]float32{1, nan, 2}, maskOf(1, 0)},
		"+Inf":                   {[]float32{1, inf, 2}, maskOf(1, 0)},
		"nothing is allowed":     {[]float32{1, 2, 3}, maskOf(1)},
		"an empty mask":          {[]float32{1, 2, 3}, []uint64{}},
		"the allowed one is out": {[]float32{1, -inf, 3}, maskOf(1, 1)},
	} {
		for _, p := range []Params{{}, {Temperature: 1, Logprobs: -1}} {
			s := New(p, len(c.logits), nil)
			s.SetMask(c.mask)
			if r, err := s.Sample(slices.Clone(c.logits)); err == nil {
				t.Errorf("%s: got %+v, expected an error", name, r)
			}
		}
	}
}

// TestConstrainedOnHost: a device does not know masks.
func TestConstrainedOnHost(t *testing.T) {
	s := New(Params{Logprobs: -1}, 4, nil)
	if !s.OnDevice() {
		t.Error("a plain request is not for the device")
	}
	if s.Constrain(); s.OnDevice() {
		t.Error("a constrained request is for the device")
	}
}
