// Package sampling chooses tokens from logits. Adjust applies biases and penalties on recent
// tokens, Choose takes the most likely token or samples one, and Feed copies chosen tokens into the
// next pass without waiting for the host. Likeliest finds the most likely token of a drafter and
// its probability.
//
// Every implementation chooses the same token. Keys that order logits and weights of tokens are
// integers, so no sum depends on the order in which threads or devices add. Random numbers are part
// of the settings of a row.
package sampling

import (
	"fmt"
	"math"
	"slices"

	"headroom/kernels"
)

// Cases returns the cases of this family for the tests, the benchmark and the self-test.
func Cases() []kernels.Case {
	return slices.Concat(chooseCases(), adjustCases(), feedCases(), likeliestCases())
}

// Settings are the sampling parameters of a row. With temperature 0 the most likely token is
// chosen. Otherwise a token is sampled with weight exp(logit / Temperature) from those that pass
// three filters. Each filter keeps the first tokens in descending order of their logits, with the
// lower id first among equal ones. Filters use probabilities at temperature 1.
type Settings struct {
	Temperature float32 // 0 for the most likely token
	TopK        int     // number of tokens to keep; 0 or less for all
	TopP        float32 // keep tokens while the probability before them is less; 0 or 1 for all
	MinP        float32 // least probability relative to the most likely token; 0 for all
	Random      uint64  // uniform random number that selects the token
}

// NoToken is returned in place of a token if all logits are -Inf.
const NoToken int32 = -1

// FaultAt returns the fault that is returned in place of a token if a logit is NaN or +Inf. i is
// the index of the first such logit of the row.
func FaultAt(i int32) int32 { return -2 - i }

// Fault returns an error that describes a fault, or nil if token is a token.
func Fault(token int32) error {
	switch {
	case token == NoToken:
		return fmt.Errorf("no token to choose: all logits are -Inf")
	case token < 0:
		return fmt.Errorf(
			"the model's logit for token %d is NaN or infinite, expected a finite number: the "+
				"weights or the computation are wrong", -2-token)
	}
	return nil
}

const (
	// log2e has float32 precision. A weight at temperature 1 is 2^(-log2e * distance).
	log2e       = 1.44269504
	topPScale   = 1 << 24  // scale of TopP as an integer
	leastNormal = 0x1p-126 // GPUs may flush smaller distances to 0
)

// limits are the Settings in the form that all implementations use. It is Draw of choose.metal.
type limits struct {
	scale  float32 // log2(e) / temperature, or 0 for the most likely token
	reach  float32 // min-p keeps logits down to this distance from the largest
	topK   uint32
	topP   uint32 // in units of 1/topPScale, or 0 for off
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

// filters reports whether any filter may drop a token.
func (l *limits) filters(vocab int) bool {
	return l.topK < uint32(vocab) || l.topP > 0 || l.reach < math.MaxFloat32
}

// massLimit returns the limit of top-p for a row with the given total mass: top-p drops a token if
// the mass before it is at least the limit. The limit is rounded down, and no step exceeds 64 bits.
// It is never 0, because the most likely token has a mass of UnitWeight.
func (l *limits) massLimit(total uint64) uint64 {
	if l.topP == 0 {
		return math.MaxUint64
	}
	p := uint64(l.topP)
	return total>>24*p + (total&(topPScale-1))*p>>24
}

// UnitWeight is the weight of the most likely token.
const UnitWeight = 1 << 40

// weight returns 2^-(distance*scale) in units of 1/UnitWeight, rounded down, for a logit that is
// distance >= 0 below the largest. Sums of at most maxVocab weights fit in 64 bits. It uses a
// polynomial of degree 5 in float32, interpolated at Chebyshev nodes and exact at 0, and rounds
// each step. The error is within 6e-7, and the bits are the same everywhere. It is short enough to
// be inlined.
func weight(distance, scale float32) uint64 {
	t := float32(distance * scale)
	if !(t < 41) {
		return 0
	}
	n := int32(t)
	f := t - float32(n)
	const unit = 1 << 24 // float32 holds integers up to it exactly
	y := float32(-0.00100363046*unit*f) + 0.00934423134*unit
	y = float32(y*f) - 0.0554085597*unit
	y = float32(y*f) + 0.240214691*unit
	y = float32(y*f) - 0.693146944*unit
	y = float32(y*f) + unit
	return uint64(int64(y) << 16 >> n)
}

// maxVocab is the largest vocabulary: the sum of its weights fits in 64 bits.
const maxVocab = 1 << 23
