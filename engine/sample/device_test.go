package sample

import (
	"slices"
	"testing"

	"headroom/kernels/sampling"
)

// recent returns the counts of tokens. In pairs, each token is followed by its count.
func recent(pairs ...int32) (list []sampling.TokenCount) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, sampling.TokenCount{Token: pairs[i], Count: pairs[i+1]})
	}
	return list
}

// TestRows compares the row for a placeholder with the row for the same token once it is known.
// They have the same settings, and only the second counts the token.
func TestRows(t *testing.T) {
	s := New(Params{Temperature: 1, PresencePenalty: 1, RepetitionContextTokens: 3, Logprobs: -1,
		Seed: seed(3)}, 10, nil)
	s.Observe(5)
	s.Observe(6)
	sorted := func(h sampling.Adjustment) []sampling.TokenCount {
		slices.SortFunc(h.Recent,
			func(a, b sampling.TokenCount) int { return int(a.Token - b.Token) })
		return h.Recent
	}
	var r Rows
	for _, c := range []struct {
		token         int32
		before, after []sampling.TokenCount // the recent tokens without and with token
	}{
		{5, recent(5, 1, 6, 1), recent(5, 2, 6, 1)},
		{7, recent(5, 1, 6, 1), recent(5, 1, 6, 1, 7, 1)}, // the first 5 leaves the window
		{7, recent(5, 1, 7, 1), recent(5, 1, 7, 2)},
		{7, recent(7, 2), recent(7, 3)},
		{8, recent(7, 2), recent(7, 2, 8, 1)},
	} {
		r.Reset()
		r.Add(s, Placeholder(4))
		s.Observe(c.token)
		r.Add(s, c.token)
		before, after := r.Adjusted()[0], r.Adjusted()[1]
		if !slices.Equal(sorted(before), c.before) || before.Chosen != 4 ||
			!slices.Equal(sorted(after), c.after) || after.Chosen != -1 {
			t.Errorf("before token %d: %+v, after it: %+v, expected %v and %v", c.token, before,
				after, c.before, c.after)
		}
		if r.Settings[0] != r.Settings[1] {
			t.Errorf("settings before token %d: %+v, after it: %+v", c.token, r.Settings[0],
				r.Settings[1])
		}
	}
	if n := testing.AllocsPerRun(100,
		func() { r.Reset(); r.Add(s, Placeholder(1)); r.Add(s, 3) }); n != 0 {
		t.Errorf("%v allocations for two rows, expected none", n)
	}
	r.Reset()
	if r.Add(New(Params{}, 10, nil), 3); r.Adjusted() != nil {
		t.Error("a sequence without penalties has adjustments")
	}
}

// TestRowsAfter compares the rows after tokens that s has not observed with those after they are.
func TestRowsAfter(t *testing.T) {
	s := New(Params{Temperature: 0.7, TopK: 3, Seed: seed(5), LogitBias: map[int32]float32{2: 1},
		Logprobs: -1}, 10, nil)
	s.Observe(4)
	var ahead, after Rows
	for tokens := range 3 {
		ahead.AddAfter(s, tokens)
	}
	for token := range int32(3) {
		after.Add(s, 4)
		s.Observe(token)
	}
	if !slices.Equal(ahead.Settings, after.Settings) || ahead.Settings[0] == ahead.Settings[1] {
		t.Errorf("settings ahead %+v, expected %+v", ahead.Settings, after.Settings)
	}
	if n := len(ahead.Adjusted()); n != 3 {
		t.Errorf("%d adjustments of 3 rows with a bias", n)
	}
	for i, h := range ahead.Adjusted() {
		if len(h.Biases) != 1 || h.Biases[0].Token != 2 || h.Chosen != -1 {
			t.Errorf("row %d: adjustment %+v, expected a bias of token 2", i, h)
		}
	}
	if s.Remembers() || !New(Params{RepetitionPenalty: 1.1}, 10, nil).Remembers() {
		t.Error("only penalties depend on earlier tokens")
	}
}

// TestRowsOfBiases checks that every row has the biases, sorted by token, whether or not the last
// token is known.
func TestRowsOfBiases(t *testing.T) {
	s := New(Params{LogitBias: map[int32]float32{9: -100, 2: 1.5}, Logprobs: -1}, 10, nil)
	var r Rows
	r.Add(New(Params{}, 10, nil), 3)
	r.Add(s, Placeholder(0))
	r.Add(s, 4)
	want := []sampling.LogitBias{{Token: 2, Value: 1.5}, {Token: 9, Value: -100}}
	got := r.Adjusted()
	if len(got) != 3 || len(got[0].Biases) != 0 || !slices.Equal(got[1].Biases, want) ||
		!slices.Equal(got[2].Biases, want) || len(got[1].Recent) != 0 || got[1].Chosen != -1 {
		t.Errorf("got %+v, expected %v in the last two rows", got, want)
	}
	r.Reset()
	if r.Add(New(Params{}, 10, nil), 3); r.Adjusted() != nil {
		t.Error("a row after Reset has biases")
	}
}

func many(tokens int) map[int32]float32 {
	m := map[int32]float32{}
	for i := range tokens {
		m[int32(i)] = 1
	}
	return m
}

func TestOnDevice(t *testing.T) {
	for _, c := range []struct {
		params Params
		want   bool
	}{
		{Params{Logprobs: -1}, true}, {Params{}, false}, {Params{Logprobs: 3}, false},
		{Params{Logprobs: -1, LogitBias: map[int32]float32{3: 1}}, true},
		{Params{Logprobs: -1, LogitBias: many(1024)}, true},
		{Params{Logprobs: -1, LogitBias: many(1025)}, false},
		{Params{Logprobs: -1, PresencePenalty: 1}, true},
		{Params{Logprobs: -1, PresencePenalty: 1, RepetitionContextTokens: 256}, true},
		{Params{Logprobs: -1, PresencePenalty: 1, RepetitionContextTokens: 257}, false},
		{Params{Logprobs: -1, RepetitionContextTokens: 257}, true},
		{Params{Logprobs: -1, XTC: XTC{Probability: 1}, Temperature: 1}, false},
		{Params{Logprobs: -1, XTC: XTC{Probability: 1}}, true}, // greedy
		{Params{Logprobs: -1, DRY: DRY{Multiplier: 1}}, false},
	} {
		if got := New(c.params, 10, nil).OnDevice(); got != c.want {
			t.Errorf("%+v: got %t", c.params, got)
		}
	}
	if r, err := Chosen(7); r.Token != 7 || err != nil {
		t.Errorf("token 7: got %+v, %v", r, err)
	}
	if _, err := Chosen(sampling.FaultAt(3)); err == nil {
		t.Error("a fault was accepted as a token")
	}
}
