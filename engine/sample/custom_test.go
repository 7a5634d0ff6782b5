package sample

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestCustom checks what the functions get, in which order the steps come, and what the device may
// not do.
func TestCustom(t *testing.T) {
	none := float32(math.Inf(-1))
	var seen [][]int32
	s := New(Params{LogitBias: map[int32]float32{2: 5}, Custom: Custom{
		Process: func(tokens []int32, logits []float32) {
			seen = append(seen, slices.Clone(tokens))
			if logits[2] != 6 { // 1 and its bias of 5
				t.Errorf("got the logit %g, expected 6", logits[2])
			}
			logits[2] = none
		}}}, 4, nil)
	if s.OnDevice() || !s.Remembers() {
		t.Error("a device may not choose where there are functions")
	}
	for _, token := range []int32{3, 1} {
		s.Observe(token)
		if got, err := s.Sample([]float32{0, 2, 1, 1.5}); err != nil || got.Token != 1 {
			t.Errorf("got %+v, %v, expected token 1", got, err)
		}
	}
	s.SetMask([]uint64{1 << 2}) // the mask comes after the function
	if _, err := s.Sample([]float32{0, 2, 1, 1.5}); err == nil {
		t.Error("a token was chosen though mask and function exclude all")
	}
	if len(seen) != 3 || !slices.Equal(seen[1], []int32{3, 1}) {
		t.Errorf("the function got the tokens %v", seen)
	}
}

func TestCustomChoice(t *testing.T) {
	for _, c := range []struct {
		token int32
		want  string // part of the error
	}{{1, ""}, {-1, "between 0 and 2"}, {3, "between 0 and 2"}, {2, "it is excluded"}} {
		s := New(Params{Temperature: 1, Custom: Custom{
			Choose: func([]int32, []float32) int32 { return c.token }}}, 3, nil)
		s.SetMask([]uint64{0b011})
		got, err := s.Sample([]float32{9, 1, 2})
		switch {
		case c.want == "" && (err != nil || got.Token != c.token ||
			math.Abs(float64(got.Logprob)+8.000335) > 1e-4):
			t.Errorf("token %d: got %+v, %v", c.token, got, err)
		case c.want != "" && (!errors.Is(err, ErrChoice) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("token %d: got %v, expected %q", c.token, err, c.want)
		}
	}
	s := New(Params{Custom: Custom{Choose: func([]int32, []float32) int32 { return 0 }}}, 2, nil)
	if _, err := s.Sample([]float32{1, float32(math.NaN())}); err == nil {
		t.Error("a NaN was accepted")
	}
}
