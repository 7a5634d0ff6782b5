package sample

// XTC ("exclude top choices", by p-e-w, text-generation-webui pull request 6335, and mlx-lm's
// apply_xtc): for some tokens, chosen at random, it drops the most likely ones, so that an answer
// is less predictable but stays sensible.

import (
	"math"
	"slices"

	"headroom/kernels/sampling"
)

// XTC has the parameters of that sampler. It does nothing at temperature 0.
type XTC struct {
	Probability float32 // that it drops tokens at a position; 0: off
	// Threshold is the probability above which it drops all tokens but the least likely of these;
	// 0: DefaultXTCThreshold. Above 0.5 no two tokens can reach it.
	Threshold float32
}

// DefaultXTCThreshold is llama.cpp's threshold.
const DefaultXTCThreshold = 0.1

// exclusion applies XTC.
type exclusion struct {
	XTC
	kept []uint64  // tokens that are never dropped: those that end an answer or a line
	row  []float32 // logits without the dropped tokens
}

// newExclusion returns nil if XTC is off or does nothing.
func newExclusion(p *Params, tokens Tokens) *exclusion {
	if p.XTC.Probability == 0 || p.Temperature == 0 {
		return nil
	}
	e := &exclusion{XTC: p.XTC}
	if e.Threshold == 0 {
		e.Threshold = DefaultXTCThreshold
	}
	if tokens != nil {
		e.kept = tokens.Ends()
	}
	return e
}

// falls reports whether tokens are dropped at a position. Its random number is not the one that
// then chooses a token.
func (e *exclusion) falls(seed, position uint64) bool {
	const other = 0x58544321 // any constant
	u := float64(random(seed^other, position)>>11) / (1 << 53)
	return u < float64(e.Probability)
}

// choose chooses from the tokens that pass top-p and min-p, then XTC, then top-k. Probabilities are
// those among the tokens that top-p and min-p keep, as in mlx-lm.
func (e *exclusion) choose(c *sampling.Chooser, logits []float32, s sampling.Settings,
) sampling.Choice {
	before := s
	before.TopK = 0
	kept, best := c.Keep(logits, before)
	if best < 0 {
		return sampling.Choice{Token: best, Best: best}
	}
	e.row = slices.Grow(e.row[:0], len(logits))[:len(logits)]
	none := float32(math.Inf(-1))
	for i := range e.row {
		e.row[i] = none
	}
	peak, sum := logits[best], 0.0
	for _, id := range kept {
		e.row[id] = logits[id]
		sum += math.Exp(float64(logits[id] - peak))
	}
	floor := float32(math.Inf(1)) // the least logit above the threshold
	above := float64(e.Threshold) * sum
	for _, id := range kept {
		if x := logits[id]; math.Exp(float64(x-peak)) > above {
			floor = min(floor, x)
		}
	}
	for _, id := range kept {
		if logits[id] > floor && !has(e.kept, id) {
			e.row[id] = none
		}
	}
	s.TopP, s.MinP = 0, 0
	return sampling.Choice{Token: c.Choose(e.row, s).Token, Best: best}
}
