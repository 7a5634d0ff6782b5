package sample

import (
	"math"

	"headroom/kernels/sampling"
)

// Score returns the log-probability of a token at a position with the given logits [V], and those
// of the n most likely tokens, most likely first. Neither penalties nor a logit bias apply: the
// token is given, not sampled. Like Sampler.Sample, it refuses logits that only a broken model
// produces. top is new memory.
func Score(logits []float32, token int32, n int) (logprob float32, top []TokenLogprob, err error) {
	peak := float32(math.Inf(-1))
	for i, x := range logits {
		if x != x || x > math.MaxFloat32 {
			return 0, nil, sampling.Fault(sampling.FaultAt(int32(i)))
		}
		peak = max(peak, x)
	}
	if math.IsInf(float64(peak), -1) {
		return 0, nil, sampling.Fault(sampling.NoToken)
	}
	norm := float64(peak) + math.Log(expSum(logits, peak, 1))
	if n > 0 {
		n = min(n, len(logits))
		top = topLogits(make([]TokenLogprob, 0, n), logits, n)
		for i := range top {
			top[i].Logprob = float32(float64(top[i].Logprob) - norm)
		}
	}
	return float32(float64(logits[token]) - norm), top, nil
}
