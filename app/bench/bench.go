// Package bench measures how fast this machine runs models, and holds each figure against what the
// machine could do: the bandwidth of its memory and the rate of its multiply-adds, measured before
// and after each sample.
//
//	plan.go      what is measured, in groups that each have a process of their own
//	dense.go     prompts and answers of one stream, at several depths of the context
//	together.go  several streams, several threads, a mixture of experts
//	load.go      from a checkpoint on disk to the first token, and what is resident then
//	report.go    the figures: JSON, medians, targets
//	table.go     the figures as Markdown, and as lines for benchstat
//	ceiling.go   what the machine could do while a figure was taken
//	machine.go   whose figures they are
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

// tokens is a prompt of n pseudo-random tokens, other ones for another seed.
func tokens(e *engine.Engine, seed, n int) []int32 {
	vocab := uint32(e.Tokenizer().VocabSize())
	prompt := make([]int32, n)
	x := uint32(seed)*2654435761 + 12345
	for i := range prompt {
		// Numerical Recipes' generator: any fixed, well spread ids will do
		x = x*1664525 + 1013904223
		prompt[i] = int32((x >> 8) % vocab)
	}
	return prompt
}

// answered is a request that was carried out, and when its tokens came.
type answered struct {
	engine.Event // Done
	at           []time.Time
}

// ask reads a prompt and decodes so many tokens after it, end tokens or not.
func ask(ctx context.Context, e *engine.Engine, prompt []int32, n int) (a answered, err error) {
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

// median is the middle one of samples, or the mean of the two in the middle; 0 of none.
func median(samples []float64) float64 {
	n := len(samples)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
