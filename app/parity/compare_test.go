package parity

import (
	"fmt"
	"math"
	"testing"
)

func TestCompare(t *testing.T) {
	said := func(tokens []int32, logprobs ...float32) answer {
		return answer{tokens: tokens, logprobs: logprobs}
	}
	nan := float32(math.NaN())
	want := said([]int32{5, 6, 7}, -1, -2, -3)
	for _, c := range []struct {
		name    string
		got     answer
		exact   bool
		common  int
		largest float64
		apart   string
	}{
		{"equal", said([]int32{5, 6, 7}, -1, -2, -3), true, 3, 0, "<nil>"},
		{"another token", said([]int32{5, 9, 7}, -1, -2.5, -3), true, 1, 0, "&{1 false}"},
		{"only the same by chance after it", said([]int32{4, 6, 7}, -1, -2, -3), false, 0, 0,
			"&{0 false}"},
		{"shorter", said([]int32{5, 6}, -1, -2), true, 2, 0, "&{2 false}"},
		{"longer", said([]int32{5, 6, 7, 8}, -1, -2, -3, -4), true, 3, 0, "&{3 false}"},
		{"nothing", said(nil), true, 0, 0, "&{0 false}"},
		{"other log-probabilities", said([]int32{5, 6, 7}, -1, -2.5, -4), true, 3, 1, "&{1 true}"},
		{"these are allowed", said([]int32{5, 6, 7}, -1, -2.5, -4), false, 3, 1, "<nil>"},
		{"the log-probabilities part first", said([]int32{5, 6, 8}, -1, -2.25, -3), true, 2, 0.25,
			"&{1 true}"},
		{"no number", said([]int32{5, 6, 7}, -1, -2, nan), true, 3, math.NaN(),
			"&{2 true}"},
	} {
		common, largest, apart := compare(want, c.got, c.exact)
		if common != c.common || fmt.Sprint(apart) != c.apart ||
			largest != c.largest && !(math.IsNaN(largest) && math.IsNaN(c.largest)) {
			t.Errorf("%s: %d, %g, %v, expected %d, %g, %s", c.name, common, largest, apart,
				c.common, c.largest, c.apart)
		}
	}
}

func TestConclude(t *testing.T) {
	apart := []Parting{{Prompt: 2, Token: 5}}
	rows := map[string]Row{
		"plain":     {Way: "plain", Answers: 3},
		"crowd":     {Way: "crowd", MustEqual: true, Answers: 3},
		"ahead":     {Way: "ahead", MustEqual: true, NotTried: "no drafts"},
		"broken":    {Way: "broken", MustEqual: true, Answers: 3, Partings: apart},
		"cache":     {Way: "f16", Answers: 3, Partings: apart},
		"same":      {Way: "f16", Answers: 3},
		"no device": {Way: "GPU", NotTried: "no GPU"},
	}
	for _, c := range []struct {
		ways  []string
		equal bool
		want  string
	}{
		{[]string{"plain", "crowd", "crowd", "same", "no device"}, true,
			"All 2 ways that must equal plain decoding do."},
		{[]string{"plain", "crowd", "ahead", "cache", "no device"}, true,
			"1 way that must equal plain decoding does, 1 more could not be tried; others may " +
				"differ: f16 in 1 of 3 answers."},
		{[]string{"plain", "crowd", "broken", "cache"}, false,
			"Different from plain decoding, and must not be: broken in 1 of 3 answers."},
	} {
		r := Report{}
		for _, w := range c.ways {
			r.Ways = append(r.Ways, rows[w])
		}
		if r.conclude(); r.Equal != c.equal || r.Verdict != c.want {
			t.Errorf("%s: %t, %q, expected %t, %q", c.ways, r.Equal, r.Verdict, c.equal, c.want)
		}
	}
}
