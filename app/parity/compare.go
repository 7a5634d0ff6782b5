package parity

import "math"

// parting is the first place where two answers differ.
type parting struct {
	at        int  // index of the token; the number of equal tokens before it
	sameToken bool // only the log-probabilities differ
}

// compare returns how many tokens two answers have in common at their beginning, and the largest
// difference of log-probability among these. apart is where they part, nil if they do not. If
// exact, they also part where only the log-probabilities differ.
func compare(want, got answer, exact bool) (common int, largest float64, apart *parting) {
	n := min(len(want.tokens), len(got.tokens))
	for common < n && want.tokens[common] == got.tokens[common] {
		a, b := want.logprobs[common], got.logprobs[common]
		if math.Float32bits(a) != math.Float32bits(b) {
			largest = max(largest, math.Abs(float64(a)-float64(b)))
			if exact && apart == nil {
				apart = &parting{common, true}
			}
		}
		common++
	}
	if apart == nil && (common < len(want.tokens) || common < len(got.tokens)) {
		apart = &parting{common, false}
	}
	return common, largest, apart
}
