// Package sampling chooses tokens from logits: biases, penalties on recent tokens, the likeliest
// token or a draw among the likely ones, and the next pass's tokens, some of which only the device
// knows yet.
//
// Whatever chooses, the choice is the same: keys that order logits are integers, weights of a draw
// are integers (weight), and so no sum depends on the order in which threads or devices take it.
// Random numbers come with the settings of a row.
package sampling

import (
	"fmt"
	"math"

	"headroom/kernels"
)

// Cases are this family's cases, for the tests, the benchmark and the selftest.
func Cases() []kernels.Case {
	return append(append(chooseCases(), adjustCases()...), feedCases()...)
}

// Settings choose a row's token: the likeliest, or a draw with weights exp(logit / Temperature)
// from those that pass three filters. Each filter keeps a beginning of the tokens in descending
// order of their logits, of equal ones the lower id first, and looks at probabilities before the
// temperature.
type Settings struct {
	Temperature float32 // 0: the largest logit
	TopK        int     // keep so many; 0 or less: all
	TopP        float32 // keep the tokens before which less than this probability lies; 0 or 1: all
	MinP        float32 // keep those at least this times as likely as the likeliest; 0: all
	Random      uint64  // uniform: the draw's place among the weights
}

// Faults stand in place of a token: NoToken where no logit is finite, FaultAt(i) where logit i, the
// first such, is NaN or +Inf.
const NoToken int32 = -1

// FaultAt is what stands in place of a token when logit i cannot be.
func FaultAt(i int32) int32 { return -2 - i }

// Fault explains a choice that is no token; nil for tokens.
func Fault(token int32) error {
	switch {
	case token == NoToken:
		return fmt.Errorf("no token to choose: all logits are -Inf")
	case token < 0:
		return fmt.Errorf(
			"the model's logit for token %d is not a number or infinite, expected finite numbers: "+
				"its weights or the computation are broken", -2-token)
	}
	return nil
}

const (
	// of float32 precision: a weight at temperature 1 is 2^(-log2e * distance)
	log2e       = 1.44269504
	topPScale   = 1 << 24  // TopP as an integer
	leastNormal = 0x1p-126 // GPUs may take smaller distances for 0
)

// limits are Settings as every implementation uses them: what the host computes once. The struct is
// Draw of choose.metal.
type limits struct {
	scale  float32 // log2(e) / temperature; 0: the largest logit
	reach  float32 // tokens whose logits are at most so far below the largest pass min-p
	topK   uint32
	topP   uint32 // of topPScale; 0: off
	random uint64
}

func (s *Settings) limits(vocab int) limits {
	l := limits{reach: math.MaxFloat32, topK: uint32(vocab), random: s.Random}
	if s.Temperature > 0 {
		l.scale = float32(min(max(log2e/float64(s.Temperature), leastNormal), math.MaxFloat32))
	}
	if s.MinP > 0 {
		l.reach = float32(max(-math.Log(float64(s.MinP)), leastNormal))
	}
	if s.TopK > 0 && s.TopK < vocab {
		l.topK = uint32(s.TopK)
	}
	if s.TopP > 0 && s.TopP < 1 {
		l.topP = max(uint32(s.TopP*topPScale), 1)
	}
	return l
}

// filters tells whether any token may be dropped.
func (l *limits) filters(vocab int) bool {
	return l.topK < uint32(vocab) || l.topP > 0 || l.reach < math.MaxFloat32
}

// massLimit is the mass before a token from which on top-p drops it, of a row of that total mass:
// the share, rounded down in a way that needs no more than 64 bits. It is never 0, as the likeliest
// token has a mass of UnitWeight.
func (l *limits) massLimit(total uint64) uint64 {
	if l.topP == 0 {
		return math.MaxUint64
	}
	p := uint64(l.topP)
	return total>>24*p + (total&(topPScale-1))*p>>24
}

// UnitWeight is the weight of the likeliest token.
const UnitWeight = 1 << 40

// weight is 2^-(distance*scale) in units of 1/UnitWeight, rounded down, for a logit that lies
// distance >= 0 below the largest. Rows have fewer than 2^23 logits, so that sums fit. A polynomial
// of degree 5 in float32 (interpolated at Chebyshev's points, exact at 0), each step rounded:
// within 6e-7, and the same bits everywhere. It is as short as it is to be inlined.
func weight(distance, scale float32) uint64 {
	t := float32(distance * scale)
	if !(t < 41) {
		return 0
	}
	n := int32(t)
	f := t - float32(n)
	const unit = 1 << 24 // what float32 holds exactly
	y := float32(-0.00100363046*unit*f) + 0.00934423134*unit
	y = float32(y*f) - 0.0554085597*unit
	y = float32(y*f) + 0.240214691*unit
	y = float32(y*f) - 0.693146944*unit
	y = float32(y*f) + unit
	return uint64(int64(y) << 16 >> n)
}

// maxVocab is the longest row: the sum of its weights fits 64 bits.
const maxVocab = 1 << 23
