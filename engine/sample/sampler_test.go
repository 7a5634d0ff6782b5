package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func seed(n uint64) *uint64 { return &n }

func mustSample(t testing.TB, s *Sampler, logits []float32) Result {
	t.Helper()
	r, err := s.Sample(logits)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-5 }

func TestGreedy(t *testing.T) {
	inf := float32(math.Inf(1))
	tests := []struct {
		name   string
		logits []float32
		want   int32
	}{
		{"the largest", []float32{1, 3, 2}, 1},
		{"the lowest id on ties", []float32{0, 5, 5, 5}, 1},
		{"all negative", []float32{-3, -1, -2}, 1},
		{"masked tokens", []float32{-inf, -7, -inf}, 1},
		{"a tie across blocks of eight", []float32{0, 0, 0, 9, 0, 0, 0, 0, 0, 9}, 3},
		{"after the last block of eight", []float32{0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 9},
		{"one token", []float32{-5}, 0},
		{"the lowest finite number", []float32{-inf, -math.MaxFloat32}, 1},
	}
	for _, tt := range tests {
		if got := mustSample(t, New(Params{}, len(tt.logits), nil),
			slices.Clone(tt.logits)); got.Token != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got.Token, tt.want)
		}
	}
}

// TestLogprobs checks that logits ln 1, ln 2, ln 4, ln 1 have the probabilities 1/8, 2/8, 4/8, 1/8
// at any temperature.
func TestLogprobs(t *testing.T) {
	logits := []float32{0, float32(math.Ln2), 2 * float32(math.Ln2), 0}
	for _, p := range []Params{
		{Logprobs: 3}, {Logprobs: 3, Temperature: 0.01},
		{Logprobs: 3, Temperature: 1e-6, TopK: 2, TopP: 0.9},
	} {
		got := mustSample(t, New(p, 4, nil), slices.Clone(logits))
		if got.Token != 2 || !near(float64(got.Logprob), math.Log(0.5)) {
			t.Errorf("%+v: got token %d, logprob %v; want 2, ln(1/2)", p, got.Token, got.Logprob)
		}
		for i, want := range []TokenLogprob{{2, float32(math.Log(0.5))},
			{1, float32(math.Log(0.25))}, {0, float32(math.Log(0.125))}} {
			if len(got.Top) != 3 || got.Top[i].Token != want.Token ||
				!near(float64(got.Top[i].Logprob), float64(want.Logprob)) {
				t.Errorf("%+v: top is %v, want %v at %d", p, got.Top, want, i)
			}
		}
	}
	if got := mustSample(t, New(Params{Logprobs: -1}, 4, nil),
		slices.Clone(logits)); got.Logprob != 0 || got.Top != nil {
		t.Errorf("Logprobs is -1: got %+v", got)
	}
	if got := mustSample(t, New(Params{Logprobs: 9}, 4, nil),
		slices.Clone(logits)); len(got.Top) != 4 {
		t.Errorf("more logprobs than tokens: got %v", got.Top)
	}
}

// TestAdjust compares biases and penalties with results computed by hand.
func TestAdjust(t *testing.T) {
	tests := []struct {
		name     string
		params   Params
		observed []int32
		want     []float32 // of logits 4, -4, 2, 0
	}{
		{"nothing", Params{}, []int32{0, 1}, []float32{4, -4, 2, 0}},
		{"bias", Params{LogitBias: map[int32]float32{0: -5, 3: 1, 99: 7}}, nil,
			[]float32{-1, -4, 2, 1}},
		// 4/2, -4·2; applied once, though token 0 occurs twice
		{"repetition", Params{RepetitionPenalty: 2}, []int32{0, 0, 1}, []float32{2, -8, 2, 0}},
		{"presence", Params{PresencePenalty: 0.5}, []int32{0, 0, 1}, []float32{3.5, -4.5, 2, 0}},
		{"frequency", Params{FrequencyPenalty: 0.5}, []int32{0, 0, 1}, []float32{3, -4.5, 2, 0}},
		// token 0: ((4-6)·2) - 1 - 2·0.5 = -6; token 2: 2/2 - 1 - 0.5 = -0.5
		{"all, in order", Params{LogitBias: map[int32]float32{0: -6}, RepetitionPenalty: 2,
			PresencePenalty: 1, FrequencyPenalty: 0.5},
			[]int32{0, 2, 0}, []float32{-6, -4, -0.5, 0}},
		{"only the last tokens count", Params{PresencePenalty: 1, RepetitionContextTokens: 2},
			[]int32{0, 1, 2, 1}, []float32{4, -5, 1, 0}},
		{"twenty by default", Params{FrequencyPenalty: 1},
			slices.Concat([]int32{0}, slices.Repeat([]int32{3}, 19)), []float32{3, -4, 2, -19}},
		{"the first of 21 is forgotten", Params{FrequencyPenalty: 1},
			slices.Concat([]int32{0}, slices.Repeat([]int32{3}, 20)), []float32{4, -4, 2, -20}},
		{"ids outside the vocabulary", Params{PresencePenalty: 1}, []int32{-1, 4, 1 << 30},
			[]float32{4, -4, 2, 0}},
	}
	for _, tt := range tests {
		if err := tt.params.Validate(); err != nil {
			t.Fatal(err)
		}
		s := New(tt.params, 4, nil)
		for _, id := range tt.observed {
			s.Observe(id)
		}
		logits := []float32{4, -4, 2, 0}
		mustSample(t, s, logits)
		if !slices.Equal(logits, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, logits, tt.want)
		}
	}
}

// support returns the tokens that a sampler draws at least once in 400 tries.
func support(t *testing.T, p Params, logits []float32) (ids []int32) {
	t.Helper()
	p.Seed, p.Logprobs = seed(1), -1
	s := New(p, len(logits), nil)
	seen := map[int32]bool{}
	for range 400 {
		token := mustSample(t, s, slices.Clone(logits)).Token
		s.Observe(token)
		seen[token] = true
	}
	for id := range seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// TestFilters samples with probabilities 0.1, 0.4, 0.2, 0.3 for tokens 0 to 3, in descending order
// 1, 3, 2, 0. A high temperature makes every kept token appear.
func TestFilters(t *testing.T) {
	logits := []float32{ln(0.1), ln(0.4), ln(0.2), ln(0.3)}
	tests := []struct {
		name   string
		params Params
		want   []int32
	}{
		{"none", Params{}, []int32{0, 1, 2, 3}},
		{"all off", Params{TopP: 1, TopK: -1}, []int32{0, 1, 2, 3}},
		{"top-k 1", Params{TopK: 1}, []int32{1}},
		{"top-k 3", Params{TopK: 3}, []int32{1, 2, 3}},
		{"top-k beyond the vocabulary", Params{TopK: 9}, []int32{0, 1, 2, 3}},
		{"top-p: before token 3 lie 0.4 < 0.5", Params{TopP: 0.5}, []int32{1, 3}},
		{"top-p: before token 2 lie 0.7 < 0.75", Params{TopP: 0.75}, []int32{1, 2, 3}},
		{"top-p: the most likely token always stays", Params{TopP: 1e-9}, []int32{1}},
		{"min-p: at least 0.4·0.4 = 0.16", Params{MinP: 0.4}, []int32{1, 2, 3}},
		{"min-p: at least 0.6·0.4 = 0.24", Params{MinP: 0.6}, []int32{1, 3}},
		{"min-p 1", Params{MinP: 1}, []int32{1}},
		{"the strictest filter wins", Params{TopP: 0.95, MinP: 0.3, TopK: 2}, []int32{1, 3}},
		{"filters come before the temperature", Params{TopP: 0.5, Temperature: 5}, []int32{1, 3}},
	}
	for _, tt := range tests {
		if tt.params.Temperature == 0 {
			tt.params.Temperature = 2
		}
		if got := support(t, tt.params, logits); !slices.Equal(got, tt.want) {
			t.Errorf("%s: drew %v, want %v", tt.name, got, tt.want)
		}
	}
	inf := float32(math.Inf(-1))
	if got := support(t, Params{Temperature: 3, TopK: 3},
		[]float32{inf, 1, inf, 2}); !slices.Equal(got, []int32{1, 3}) {
		t.Errorf("masked tokens were drawn: %v", got)
	}
	if got := support(t, Params{Temperature: 3}, []float32{inf, 1, inf, 2}); !slices.Equal(got,
		[]int32{1, 3}) {
		t.Errorf("masked tokens were drawn: %v", got)
	}
	if got := support(t, Params{Temperature: 1, TopK: 2}, []float32{7, 7, 7, 7}); !slices.Equal(got,
		[]int32{0, 1}) {
		t.Errorf("equal logits: drew %v, expected the lower ids", got)
	}
}

func ln(x float64) float32 { return float32(math.Log(x)) }

// TestDistribution draws 100,000 tokens and compares the counts with the expected ones. With 3
// degrees of freedom, the chi-square statistic exceeds 16.3 for one seed in a thousand.
func TestDistribution(t *testing.T) {
	const draws = 100_000
	logits := []float32{ln(0.1), ln(0.4), ln(0.2), ln(0.3)}
	root := math.Sqrt(0.1) + math.Sqrt(0.4) + math.Sqrt(0.2) + math.Sqrt(0.3)
	tests := []struct {
		name   string
		params Params
		want   []float64
	}{
		{"plain", Params{Temperature: 1}, []float64{0.1, 0.4, 0.2, 0.3}},
		{"temperature 2 takes square roots", Params{Temperature: 2},
			[]float64{math.Sqrt(0.1) / root, math.Sqrt(0.4) / root, math.Sqrt(0.2) / root,
				math.Sqrt(0.3) / root}},
		{"top-k 3 renormalizes", Params{Temperature: 1, TopK: 3},
			[]float64{0, 4. / 9, 2. / 9, 3. / 9}},
		{"top-p, temperature 0.5 squares", Params{Temperature: 0.5, TopP: 0.5},
			[]float64{0, 16. / 25, 0, 9. / 25}},
	}
	for _, tt := range tests {
		tt.params.Seed, tt.params.Logprobs = seed(42), -1
		s := New(tt.params, 4, nil)
		var counts [4]int
		for range draws {
			token := mustSample(t, s, slices.Clone(logits)).Token
			s.Observe(token)
			counts[token]++
		}
		chi := 0.0
		for i, p := range tt.want {
			if p == 0 {
				if counts[i] > 0 {
					t.Errorf("%s: token %d was drawn", tt.name, i)
				}
				continue
			}
			d := float64(counts[i]) - draws*p
			chi += d * d / (draws * p)
		}
		if chi > 16.3 {
			t.Errorf("%s: chi-square %.1f, counts %v", tt.name, chi, counts)
		}
	}
}

func TestSeed(t *testing.T) {
	logits := randomLogits(1000, 7)
	draw := func(s *Sampler) (ids []int32) {
		for range 50 {
			ids = append(ids, mustSample(t, s, slices.Clone(logits)).Token)
			s.Observe(ids[len(ids)-1])
		}
		return ids
	}
	p := Params{Temperature: 1, Seed: seed(9)}
	first := draw(New(p, 1000, nil))
	other := New(Params{Temperature: 1, Seed: seed(10)}, 1000, nil)
	if again := draw(New(p, 1000, nil)); !slices.Equal(first, again) {
		t.Error("one seed gave two different results")
	}
	if slices.Equal(first, draw(other)) {
		t.Error("two seeds gave the same result")
	}
	p.Seed = nil
	if slices.Equal(draw(New(p, 1000, nil)), draw(New(p, 1000, nil))) {
		t.Error("two random seeds gave the same result")
	}
}

func TestBrokenLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, p := range []Params{{}, {Temperature: 1}, {Temperature: 1, TopP: 0.9}, {Logprobs: -1}} {
		for at := range 20 {
			for _, bad := range []float32{nan, inf, -nan} {
				logits := randomLogits(20, 1)
				logits[at] = bad
				if r, err := New(p, 20, nil).Sample(logits); err == nil ||
					!strings.Contains(err.Error(), "expected a finite number") {
					t.Errorf("%v at %d: got %+v, %v", bad, at, r, err)
				}
			}
		}
		if r, err := New(p, 3, nil).Sample([]float32{-inf, -inf, -inf}); err == nil {
			t.Errorf("all masked: got %+v", r)
		}
		if r, err := New(p, 0, nil).Sample(nil); err == nil {
			t.Errorf("an empty row: got %+v", r)
		}
	}
}

func TestExtremeValues(t *testing.T) {
	for _, p := range []Params{{Temperature: 1e-30}, {Temperature: 1e30},
		{Temperature: 1e-30, TopP: 0.5}, {Temperature: 1e30, TopK: 2}} {
		for _, logits := range [][]float32{
			{math.MaxFloat32, -math.MaxFloat32, 0},
			{-math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32},
			{1e-45, 0, -1e-45}, {3e38, 3e38, -3e38},
		} {
			p.Seed = seed(1)
			r := mustSample(t, New(p, 3, nil), slices.Clone(logits))
			if r.Token < 0 || r.Token > 2 || r.Logprob != r.Logprob || r.Logprob > 1e-6 {
				t.Errorf("%+v, %v: got %+v", p, logits, r)
			}
		}
	}
}

func TestExp(t *testing.T) {
	for x := 0.0; x > -690; x -= 0.00731 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if exp(math.Inf(-1)) != 0 || exp(-1000) != 0 || exp(0) != 1 {
		t.Error("exp is wrong at the ends of its range")
	}
}

func TestValidate(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		params Params
		want   string
	}{
		{Params{}, ""}, {Params{Temperature: 2, TopP: 1, TopK: -1, Logprobs: 20}, ""},
		{Params{Temperature: -1}, "temperature: got -1, it must be a number of at least 0"},
		{Params{Temperature: nan}, "temperature: got NaN"},
		{Params{TopP: 1.1}, "top_p: got 1.1"}, {Params{MinP: -0.1}, "min_p"},
		{Params{TopK: -2}, "top_k: got -2"},
		{Params{PresencePenalty: 3}, "presence_penalty: got 3, it must be between -2 and 2"},
		{Params{FrequencyPenalty: -3}, "frequency_penalty"},
		{Params{RepetitionPenalty: -1}, "repetition_penalty"},
		{Params{RepetitionPenalty: 1e-9}, "repetition_penalty"},
		{Params{RepetitionContextTokens: -1}, "repetition_context_size"},
		{Params{RepetitionContextTokens: 1 << 40}, "repetition_context_size"},
		{Params{Logprobs: 21}, "top_logprobs: got 21"},
		{Params{LogitBias: map[int32]float32{3: 101}}, "logit_bias of token 3: got 101"},
		{Params{LogitBias: map[int32]float32{-1: 1}}, "-1"},
	} {
		err := tt.params.Validate()
		if (err == nil) != (tt.want == "") || err != nil &&
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.params, err, tt.want)
		}
	}
}

func randomLogits(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	return logits
}

var benchParams = []struct {
	name   string
	params Params
}{
	{"greedy", Params{Logprobs: -1}},
	{"greedy_logprob", Params{}},
	{"temperature", Params{Temperature: 0.7, Logprobs: -1}},
	{"top_p_top_k", Params{Temperature: 0.7, TopP: 0.95, TopK: 20, Logprobs: -1}},
	{"top_p", Params{Temperature: 0.7, TopP: 0.95, Logprobs: -1}},
	{"everything", Params{Temperature: 0.7, TopP: 0.95, TopK: 20, MinP: 0.05,
		RepetitionPenalty: 1.1, Logprobs: 5}},
}

func TestNoAllocation(t *testing.T) {
	logits := randomLogits(5000, 3)
	for _, b := range benchParams {
		b.params.Seed = seed(1)
		s := New(b.params, len(logits), nil)
		step := func() { s.Observe(mustSample(t, s, logits).Token) }
		for range 100 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %v allocations per token", b.name, n)
		}
	}
}

// BenchmarkSample uses the vocabulary size of Qwen3.6 and logits of a flat distribution, which
// takes longer than a real model's.
func BenchmarkSample(b *testing.B) {
	logits := randomLogits(248_320, 3)
	for _, c := range benchParams {
		b.Run(c.name, func(b *testing.B) {
			// The logits are reused, so no penalty may change them.
			c.params.Seed, c.params.RepetitionPenalty = seed(1), 0
			s := New(c.params, len(logits), nil)
			for b.Loop() {
				mustSample(b, s, logits)
			}
		})
	}
}
