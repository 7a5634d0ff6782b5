package draft

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// text returns tokens that are partly copies of earlier ones: the share copied of the stretches
// begins at a random earlier place, and a token of a copy is another one with the probability
// edits.
func text(r *rand.Rand, n int, copied, edits float64) []int32 {
	var tokens []int32
	for len(tokens) < n {
		stretch := 10 + r.IntN(60)
		if len(tokens) < 200 || r.Float64() >= copied {
			for range stretch {
				// Frequent tokens and rare ones, as in language.
				tokens = append(tokens, int32(math.Exp(r.Float64()*9)))
			}
			continue
		}
		at := r.IntN(len(tokens) - stretch)
		for i := range stretch {
			t := tokens[at+i]
			if r.Float64() < edits {
				t = int32(math.Exp(r.Float64() * 9))
			}
			tokens = append(tokens, t)
		}
	}
	return tokens[:n]
}

// decode returns the time of decoding a text after its first prompt tokens, by passes whose rows
// cost slope of a pass each, and the time of plain decoding. The measured times are the real ones
// times noise.
func decode(r *rand.Rand, tokens []int32, prompt int, slope, noise float64, h *Hits,
	times *Times) (ahead, plain float64) {
	l := NewLookup(len(tokens))
	l.Extend(tokens[:prompt], nil)
	h = &Hits{Before: h}
	for n := prompt; n < len(tokens); {
		l.Extend(tokens[:n], h)
		round := Round{Rows: 1, Passes: times}
		depth, _, _ := round.LookupDepth(l.Match(), len(tokens)-n-1, h)
		drafts := l.Propose(tokens[:n], depth)
		took := 1 + slope*float64(len(drafts))
		times.Observe(1+len(drafts), took*math.Exp(noise*r.NormFloat64()))
		ahead += took
		done := 1
		for i, d := range drafts {
			if tokens[n+i] != d {
				break
			}
			done++
		}
		n += done
		plain += float64(done)
	}
	return ahead, plain
}

// TestNeverSlower decodes texts of many kinds on simulated machines, with noisy clocks. Decoding
// ahead is never slower than plain decoding by more than two percent, and much faster where there
// is much to copy and rows are cheap.
func TestNeverSlower(t *testing.T) {
	for _, slope := range []float64{0.02, 0.1, 0.25, 0.5, 1} {
		for _, copied := range []float64{0, 0.2, 0.9} {
			for _, noise := range []float64{0, 0.1, 0.3} {
				r := rand.New(rand.NewPCG(uint64(slope*100), uint64(copied*100+noise*1000)))
				var h Hits
				var times Times
				var ahead, plain float64
				for range 40 { // answers of one conversation after another
					a, p := decode(r, text(r, 900, copied, 0.03), 500, slope, noise, &h, &times)
					ahead, plain = ahead+a, plain+p
				}
				name := fmt.Sprintf("rows of %g, %g copied, noise %g", slope, copied, noise)
				speed := plain / ahead
				t.Logf("%s: %.2f times as fast", name, speed)
				if speed < 0.98 {
					t.Errorf("%s: %.3f times as fast", name, speed)
				}
				if least := 1 + 1.5*(copied-0.5)*(1-2*slope); copied > 0.5 && speed < least {
					t.Errorf("%s: %.3f times as fast, expected at least %.2f", name, speed, least)
				}
			}
		}
	}
}
