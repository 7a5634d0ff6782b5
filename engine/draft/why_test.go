package draft

import (
	"strings"
	"testing"
)

// TestCauses: each cause has a name of its own and a sentence.
func TestCauses(t *testing.T) {
	seen := map[string]bool{"": true}
	for c := NoCause + 1; c < causeCount; c++ {
		name, sentence := c.String(), Why{Cause: c}.Sentence()
		if seen[name] || seen[sentence] || !strings.HasSuffix(sentence, ".") {
			t.Errorf("cause %d: name %q, sentence %q", c, name, sentence)
		}
		seen[name], seen[sentence] = true, true
	}
	if names := Causes(); len(names) != int(causeCount)-1 || names[0] != "off" {
		t.Errorf("the causes are %q", names)
	}
	if got := (Why{}); got.Sentence() != "" || got.Cause.String() != "" {
		t.Errorf("no cause: %q", got.Sentence())
	}
	if got := (Why{Cause: 200}); got.Sentence() != "" || got.Cause.String() != "cause 200" {
		t.Errorf("an unknown cause: %q", got.Sentence())
	}
}

func TestSentence(t *testing.T) {
	want := "Drafts would have cost more time than they save. A pass with one draft takes 1.25 " +
		"times as long as one without, and 20 % of such drafts are expected to be right."
	w := Why{Cause: Costly, Right: 0.2, Time: 1.25, Rows: 1}
	if got := w.Sentence(); got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	w.Rows = 3
	if got := w.Sentence(); !strings.Contains(got, ". A pass of 3 answers with one draft takes") {
		t.Errorf("got %q, expected the number of answers", got)
	}
	w.Assumed = true
	if got := w.Sentence(); !strings.Contains(got, "with one draft is assumed to take 1.25 times") {
		t.Errorf("got %q, but that was not measured", got)
	}
}

// TestAssumedTime: the time of a pass with a draft is assumed if neither that was measured nor
// longer passes, and that of the drafter if none of its steps was.
func TestAssumedTime(t *testing.T) {
	for _, c := range []struct {
		passes, steps *Times
		assumed       bool
	}{
		{linear(0.25, 1), linear(0.25, 1), true},
		{linear(0.25, 1, 2), linear(0.25, 1), false},
		{linear(0.25, 1, 9), linear(0.25, 1), false},
		{linear(0.25, 1, 9), &Times{}, true},
	} {
		r := Round{Rows: 1, Passes: c.passes, Drafter: c.steps}
		if w := r.costly(0.2, 0.5); w.Assumed != c.assumed {
			t.Errorf("%+v, expected an assumed time: %t", w, c.assumed)
		}
	}
	old := linear(0.25, 1, 2)
	for range oldPasses + 1 {
		old.Tick()
	}
	if r := (Round{Rows: 1, Passes: old}); !r.costly(0.2, 0).Assumed {
		t.Error("the time was measured long ago")
	}
}

func TestWhyNoLookup(t *testing.T) {
	for _, c := range []struct {
		name        string
		match, most int
		rate, gain  float64
		times       *Times
		want        Why
	}{
		{"the last token", 5, 0, 1, 0, linear(0.25, 1, 9), Why{Cause: Short}},
		{"no match", 0, 8, 1, 0, linear(0.25, 1, 9), Why{Cause: NoMatch}},
		{"never measured", 5, 8, 1, 0, linear(0.25, 3), Why{Cause: Measuring}},
		// (1 + 0.2) / (1 + 0.25) = 0.96
		{"rarely right", 5, 8, 0.2, 0, linear(0.25, 1, 9),
			Why{Cause: Costly, Right: 0.2, Time: 1.25, Rows: 1}},
		// (1 + 0.5) / (1 + 0.25) = 1.2
		{"on battery", 5, 8, 0.5, SavingGain, linear(0.25, 1, 9),
			Why{Cause: Saving, Right: 0.5, Time: 1.25, Rows: 1}},
		{"rarely right, on battery", 5, 8, 0.2, SavingGain, linear(0.25, 1, 9),
			Why{Cause: Costly, Right: 0.2, Time: 1.25, Rows: 1}},
	} {
		r, h := Round{Rows: 1, Passes: c.times, Gain: c.gain}, always(c.rate)
		if depth, _, _ := r.LookupDepth(c.match, c.most, h); depth != 0 {
			t.Errorf("%s: depth %d, expected 0", c.name, depth)
		}
		got := r.WhyNoLookup(c.match, c.most, h)
		if got.Right = round3(got.Right); got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, got, c.want)
		}
	}
}

// round3 rounds to three decimals: the first guess still counts a little after 10^6 observations.
func round3(x float64) float64 { return float64(int(1000*x+0.5)) / 1000 }

func TestWhyNoChain(t *testing.T) {
	// A step of the drafter takes 0.3 seconds, and each row more 0.05.
	steps := &Times{}
	steps.Observe(1, 0.3)
	steps.Observe(2, 0.35)
	for _, c := range []struct {
		name       string
		most, rows int
		hits       float64 // of 1000 drafts
		reading    float64
		want       Why
	}{
		{"the last token", 0, 1, 1000, 0, Why{Cause: Short}},
		// (1 + 0.4) / (1.25 + 0.3) = 0.9
		{"rarely right", 8, 1, 400, 0, Why{Cause: Costly, Right: 0.4, Time: 1.55, Rows: 1}},
		// Together with another answer the step costs only 0.05 more.
		{"rarely right, in a crowd", 8, 2, 200, 0,
			Why{Cause: Costly, Right: 0.2, Time: 1.3, Rows: 1}},
		// (1 + 1) / (1.25 + 0.3) = 1.29, and with the reading 2 / 2.55 = 0.78
		{"much to read", 1, 1, 1000, 1, Why{Cause: Reading}},
	} {
		chain := &Chain{latest: share{1e6, c.hits * 1e3}}
		r := Round{Rows: 1, Passes: linear(0.25, 1, 9), Drafter: steps}
		if depth, _ := r.ChainDepth(chain, c.most, c.rows, c.reading); depth != 0 {
			t.Errorf("%s: depth %d, expected 0", c.name, depth)
		}
		got := r.WhyNoChain(chain, c.most, c.rows, c.reading)
		got.Right, got.Time = round3(got.Right), round3(got.Time)
		if got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, got, c.want)
		}
	}
}

func TestWhyNoBlock(t *testing.T) {
	// A block of one draft takes 4 rows: that of the last token, and Room(1, 8) = 3 masks.
	steps := &Times{}
	steps.Observe(4, 0.5)
	chain := &Chain{latest: share{1e6, 3e5}}
	r := Round{Rows: 1, Passes: linear(0.25, 1, 9), Drafter: steps}
	got := r.WhyNoBlock(chain, 8, 0)
	got.Right, got.Time = round3(got.Right), round3(got.Time)
	if want := (Why{Cause: Costly, Right: 0.3, Time: 1.75, Rows: 1}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if got := r.WhyNoBlock(chain, 0, 0); got != (Why{Cause: Short}) {
		t.Errorf("the last token: %+v", got)
	}
}

func TestWhys(t *testing.T) {
	var s Whys
	if got := s.Most(); got != (Why{Cause: Short}) {
		t.Errorf("no pass: %+v", got)
	}
	s.Add(Why{Cause: Short})
	s.Add(Why{Cause: Measuring})
	if got := s.Most(); got.Cause != Measuring {
		t.Errorf("one pass: %+v", got)
	}
	s.Add(Why{Cause: Costly, Right: 0.5})
	s.Add(Why{Cause: Costly, Right: 0.4})
	s.Add(Why{Cause: Short})
	if got := s.Most(); got != (Why{Cause: Costly, Right: 0.4}) {
		t.Errorf("got %+v, expected the latest figures of the most frequent cause", got)
	}
}
