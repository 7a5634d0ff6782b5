package sample

import (
	"math"
	"slices"
	"testing"
)

// TestLogprobsOfTokens compares with a hand-worked row: exp of the logits is 1, 2, 4 and 1, of 8.
func TestLogprobsOfTokens(t *testing.T) {
	logits := []float32{0, math.Ln2, 2 * math.Ln2, 0}
	got, err := Logprobs(logits, []int32{2, 0, 2, 1})
	want := []float32{-math.Ln2, -3 * math.Ln2, -math.Ln2, -2 * math.Ln2}
	if err != nil || !slices.EqualFunc(got, want, func(a, b float32) bool {
		return math.Abs(float64(a-b)) < 1e-6
	}) {
		t.Errorf("%v, %v, expected %v", got, err, want)
	}
	for i, token := range []int32{2, 0} {
		if one, _, _ := Score(logits, token, 0); one != got[i] {
			t.Errorf("Score of token %d is %v, Logprobs has %v", token, one, got[i])
		}
	}
	if got, err := Logprobs([]float32{0, float32(math.Inf(-1))}, []int32{1}); err != nil ||
		!math.IsInf(float64(got[0]), -1) {
		t.Errorf("a masked token: %v, %v", got, err)
	}
	inf := float32(math.Inf(-1))
	for _, broken := range [][]float32{{0, float32(math.NaN())}, {float32(math.Inf(1)), 0},
		{inf, inf}} {
		if got, err := Logprobs(broken, []int32{0}); err == nil {
			t.Errorf("%v: %v, expected an error", broken, got)
		}
	}
}
