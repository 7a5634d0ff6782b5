package sample

// A caller's own functions over the logits of one sequence, like the logits processors and the
// sampler of mlx-lm's generate_step. They run on the host.

import (
	"errors"
	"fmt"
	"math"
)

// Custom are a caller's own functions. They are called on the goroutine of the engine, which waits
// for them, one row at a time in the order of the sequence. tokens are those of the sequence so
// far, the prompt included. A function must depend on its arguments alone, else drafts and a
// preemption change the answer. It may keep neither tokens nor logits, and must not change tokens.
type Custom struct {
	// Process may change logits, a row of shape [V]. It runs after the penalties, and before the
	// tokens are restricted to the form of an answer. -Inf excludes a token. nil: nothing is
	// changed.
	Process func(tokens []int32, logits []float32)
	// Choose returns the next token, and replaces temperature, top-p and the like. A token outside
	// of the vocabulary, or whose logit is -Inf, ends the request with an error. nil: the
	// parameters choose.
	Choose func(tokens []int32, logits []float32) int32
}

// ErrChoice is the error of a function that chose a token that it must not choose.
var ErrChoice = errors.New("sample.Custom.Choose")

// IsSet reports whether there is a function.
func (c *Custom) IsSet() bool { return c.Process != nil || c.Choose != nil }

// ask has the caller's function choose the token.
func (s *Sampler) ask(logits []float32) (int32, error) {
	token := s.params.Custom.Choose(s.sequence, logits)
	if token < 0 || int(token) >= len(logits) {
		return 0, fmt.Errorf("%w: got token %d, it must be between 0 and %d", ErrChoice, token,
			len(logits)-1)
	}
	if math.IsInf(float64(logits[token]), -1) {
		return 0, fmt.Errorf("%w: got token %d, whose logit is -Inf: it is excluded", ErrChoice,
			token)
	}
	return token, nil
}
