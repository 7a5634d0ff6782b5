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
	norm, err := logNorm(logits)
	if err != nil {
		return 0, nil, err
	}
	if n > 0 {
		n = min(n, len(logits))
		top = topLogits(make([]TokenLogprob, 0, n), logits, n)
		for i := range top {
			top[i].Logprob = float32(float64(top[i].Logprob) - norm)
		}
	}
	return float32(float64(logits[token]) - norm), top, nil
}

// Logprobs returns the log-probabilities of the given tokens, which Score would return.
func Logprobs(logits []float32, tokens []int32) ([]float32, error) {
	norm, err := logNorm(logits)
	if err != nil {
		return nil, err
	}
	logprobs := make([]float32, len(tokens))
	for i, token := range tokens {
		logprobs[i] = float32(float64(logits[token]) - norm)
	}
	return logprobs, nil
}

// logNorm returns the logarithm of the sum of exp(logit), which turns a logit into a
// log-probability. The error is that of logits that only a broken model produces.
func logNorm(logits []float32) (float64, error) {
	peak := float32(math.Inf(-1))
	for i, x := range logits {
		if x != x || x > math.MaxFloat32 {
			return 0, sampling.Fault(sampling.FaultAt(int32(i)))
		}
		peak = max(peak, x)
	}
	if math.IsInf(float64(peak), -1) {
		return 0, sampling.Fault(sampling.NoToken)
	}
	return float64(peak) + math.Log(expSum(logits, peak, 1)), nil
}
