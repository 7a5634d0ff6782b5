package sample

import (
	"math"
	"slices"
	"testing"
)

// TestXTC checks which of the probabilities 1/2, 1/4, 1/8, 1/16, 1/16 can be chosen, at a
// temperature at which all remaining tokens are drawn.
func TestXTC(t *testing.T) {
	logits := make([]float32, 5)
	for i, p := range []float64{1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 16} {
		logits[i] = float32(math.Log(p))
	}
	always := func(threshold float32) XTC { return XTC{Probability: 1, Threshold: threshold} }
	tests := []struct {
		name   string
		params Params
		ends   []uint64
		want   []int32 // the tokens that are drawn
	}{
		{"off", Params{Temperature: 1}, nil, []int32{0, 1, 2, 3, 4}},
		{"the least above the threshold stays", Params{Temperature: 1, XTC: always(0.2)}, nil,
			[]int32{1, 2, 3, 4}},
		{"three are above", Params{Temperature: 1, XTC: always(0.12)}, nil, []int32{2, 3, 4}},
		{"equal ones stay", Params{Temperature: 1, XTC: always(0.05)}, nil, []int32{3, 4}},
		{"the default threshold is 0.1", Params{Temperature: 1, XTC: always(0)}, nil,
			[]int32{2, 3, 4}},
		{"one above changes nothing", Params{Temperature: 1, XTC: always(0.3)}, nil,
			[]int32{0, 1, 2, 3, 4}},
		{"none above changes nothing", Params{Temperature: 1, XTC: always(0.7)}, nil,
			[]int32{0, 1, 2, 3, 4}},
		{"ends stay", Params{Temperature: 1, XTC: always(0.12)}, []uint64{1}, []int32{0, 2, 3, 4}},
		{"greedy decoding has no XTC", Params{XTC: always(0.12)}, nil, []int32{0}},
		// Top-p keeps 1/2 and 1/4, of which 2/3 and 1/3 are above.
		{"after top-p", Params{Temperature: 1, TopP: 0.7, XTC: always(0.3)}, nil, []int32{1}},
		// Min-p keeps the first three. With shares of 4/7, 2/7 and 1/7, only two are above 0.2.
		{"after min-p", Params{Temperature: 1, MinP: 0.2, XTC: always(0.2)}, nil, []int32{1, 2}},
		// Top-k would have kept only 1/2 and 1/4 before XTC.
		{"before top-k", Params{Temperature: 1, TopK: 2, XTC: always(0.2)}, nil, []int32{1, 2}},
	}
	for _, tt := range tests {
		tt.params.Seed = seed(4)
		s := New(tt.params, 5, words{ends: tt.ends})
		drawn := map[int32]bool{}
		for range 2000 {
			row := slices.Clone(logits)
			got := mustSample(t, s, row)
			if !slices.Equal(row, logits) {
				t.Fatalf("%s: the logits changed to %v", tt.name, row)
			}
			if want := float64(logits[got.Token]); !near(float64(got.Logprob), want) {
				t.Fatalf("%s: logprob of %d is %v, want %v", tt.name, got.Token, got.Logprob, want)
			}
			drawn[got.Token] = true
			s.Observe(got.Token)
		}
		for id := range int32(5) {
			if drawn[id] != slices.Contains(tt.want, id) {
				t.Errorf("%s: drew %v, want %v", tt.name, drawn, tt.want)
				break
			}
		}
	}
}

// TestXTCProbability checks how often the most likely token, which XTC drops at a quarter of the
// positions, is chosen at a temperature near 0.
func TestXTCProbability(t *testing.T) {
	s := New(Params{Temperature: 0.001, Seed: seed(9), XTC: XTC{Probability: 0.25}}, 2, nil)
	dropped := 0
	const draws = 20_000
	for range draws {
		r := mustSample(t, s, []float32{1, 0})
		dropped += int(r.Token)
		s.Observe(r.Token)
	}
	// The standard deviation is sqrt(0.25·0.75/20000) = 0.0031.
	if share := float64(dropped) / draws; math.Abs(share-0.25) > 0.0125 {
		t.Errorf("dropped the most likely token at %.4f of the positions, want 0.25", share)
	}
}

// TestPenaltyContexts checks penalties that count different numbers of tokens, by hand.
func TestPenaltyContexts(t *testing.T) {
	p := Params{RepetitionPenalty: 2, PresencePenalty: 1, FrequencyPenalty: 0.5,
		RepetitionContextTokens: 1, PresenceContextTokens: 2, FrequencyContextTokens: 3}
	s := New(p, 4, nil)
	for _, id := range []int32{3, 0, 0, 1} {
		s.Observe(id)
	}
	logits := []float32{4, 4, 4, 4}
	mustSample(t, s, logits)
	// Token 1: 4/2 - 1 - 0.5. Token 0: 4 - 1 - 2·0.5. Token 3 is too long ago.
	if want := []float32{2, 0.5, 4, 4}; !slices.Equal(logits, want) {
		t.Errorf("got %v, want %v", logits, want)
	}
	if s.OnDevice() {
		t.Error("a device would choose, but it has one window only")
	}
}
