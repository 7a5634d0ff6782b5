// Package bench measures how fast this machine runs models, and compares each figure with its
// ceiling. The ceiling is the best value that memory bandwidth and the rate of multiply-adds allow.
// The bandwidth and the rate are measured before and after each sample.
//
//	plan.go       the groups of figures, each measured in its own process
//	dense.go      prefill and decode of one stream, at several context lengths
//	together.go   several streams, several threads, a mixture of experts
//	speculate.go  decoding ahead, by depth and acceptance
//	load.go       the time from opening a checkpoint to the first token, and resident memory
//	cost.go       the minimum work of a prompt or a token, and its minimum time
//	yardstick.go  measures memory bandwidth and arithmetic
//	ceiling.go    the ceilings while a figure was measured
//	report.go     the figures: JSON, medians, targets
//	table.go      the figures as Markdown, and as lines for benchstat
//	machine.go    the machine on which they were measured
package bench

import (
	"context"
	"slices"
	"strings"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// tokens returns a prompt of n pseudo-random tokens, which depend on the seed.
func tokens(e *engine.Engine, seed, n int) []int32 {
	vocab := uint32(e.Tokenizer().VocabSize())
	prompt := make([]int32, n)
	x := uint32(seed)*2654435761 + 12345
	for i := range prompt {
		// The generator of Numerical Recipes; any fixed, well-spread ids would do.
		x = x*1664525 + 1013904223
		prompt[i] = int32((x >> 8) % vocab)
	}
	return prompt
}

// answer is the Done event of a request, and the times of its tokens.
type answer struct {
	engine.Event // Done
	at           []time.Time
}

// ask runs a prompt and decodes n tokens after it, ignoring end tokens.
func ask(ctx context.Context, e *engine.Engine, prompt []int32, n int) (a answer, err error) {
	s, err := e.Submit(engine.Request{Prompt: prompt, MaxTokens: n, IgnoreEOS: true,
		Sampling: sample.Params{Logprobs: -1}})
	if err != nil {
		return a, err
	}
	defer s.Cancel()
	for a.Type != engine.Done {
		if a.Event, err = s.Next(ctx); err != nil {
			return a, err
		}
		if a.Type == engine.Token {
			a.at = append(a.at, time.Now())
		}
	}
	switch {
	case a.Err != nil:
		return a, a.Err
	case a.Finish != engine.FinishLength:
		return a, problem.New(problem.Internal, "A benchmark run ended early",
			strings.TrimSpace(string(a.Finish)), "")
	}
	return a, nil
}

// median returns the median of samples, 0 if there are none.
func median(samples []float64) float64 {
	n := len(samples)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
