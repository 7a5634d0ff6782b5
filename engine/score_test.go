package engine_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// scores reads a stream to its end. It returns the scores and the generated tokens.
func scores(t *testing.T, s *engine.Stream) (all []engine.Score, generated []engine.Event,
	done engine.Event) {
	t.Helper()
	for {
		e, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return all, generated, done
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case engine.Scored:
			if e.Position != len(all)+1 {
				t.Errorf("scores from position %d after %d scores", e.Position, len(all))
			}
			all = append(all, e.Scores...)
		case engine.Token:
			generated = append(generated, e)
		case engine.Done:
			done = e
		}
	}
}

func equalScores(a, b []engine.Score) bool {
	return slices.EqualFunc(a, b, func(x, y engine.Score) bool {
		return x.Token == y.Token && x.Logprob == y.Logprob && slices.Equal(x.Top, y.Top)
	})
}

// TestScores checks the scores of a prompt against the log-probabilities with which the same tokens
// were generated. They have the same bits in chunks of any size, beside other requests, and with a
// cached prefix. The prompt is as long as the context.
func TestScores(t *testing.T) {
	e := open(t, engine.Options{ContextTokens: 256, MaxSequences: 4})
	given := encode(e, question)
	sampling := sample.Params{Logprobs: 3}
	_, generated, _ := scores(t, submit(t, e, engine.Request{Prompt: given, Sampling: sampling,
		IgnoreEOS: true}))
	prompt := slices.Clone(given)
	for _, g := range generated {
		prompt = append(prompt, g.Token)
	}
	if len(prompt) != 256 {
		t.Fatalf("%d tokens, expected the context of 256", len(prompt))
	}
	q := engine.Request{Prompt: prompt, Sampling: sampling, ScorePrompt: true, NoAnswer: true}
	want, answer, done := scores(t, submit(t, e, q))
	if len(want) != len(prompt)-1 || len(answer) > 0 || done.Finish != engine.FinishLength ||
		done.Usage != (engine.Usage{PromptTokens: 256, PromptDoneTokens: 256}) {
		t.Fatalf("%d scores of %d tokens and %d generated: %+v", len(want), len(prompt),
			len(answer), done)
	}
	for i, g := range generated {
		s := want[len(given)-1+i]
		if s.Token != g.Token || s.Logprob != g.Logprob || !slices.Equal(s.Top, g.Top) {
			t.Fatalf("token %d: generated as %d %v %v, scored as %+v", i, g.Token, g.Logprob,
				g.Top, s)
		}
	}
	others := []*engine.Stream{submit(t, e, engine.Request{Prompt: given, IgnoreEOS: true}),
		submit(t, e, q), submit(t, e, q)}
	for _, s := range others {
		if got, _, done := scores(t, s); len(got) > 0 && !equalScores(got, want) ||
			done.Err != nil {
			t.Errorf("in a batch: other scores (%v)", done.Err)
		}
	}
	for _, chunk := range []int{7, 64} {
		e := open(t, engine.Options{ContextTokens: 256, ChunkTokens: chunk, MaxSequences: 1})
		if got, _, done := scores(t, submit(t, e, q)); !equalScores(got, want) {
			t.Errorf("in chunks of %d: other scores (%v)", chunk, done.Err)
		}
	}
}

// TestScoresAfterPreemption checks that each token is scored once if its sequence is preempted.
func TestScoresAfterPreemption(t *testing.T) {
	e := open(t, withPages(t, engine.Options{MaxSequences: 3, ChunkTokens: 64, ContextTokens: 256},
		9))
	long := engine.Request{Prompt: someIDs(4, 60), MaxTokens: 190, IgnoreEOS: true, Priority: 1}
	q := engine.Request{Prompt: someIDs(3, 200), ScorePrompt: true, MaxTokens: 40, IgnoreEOS: true}
	want, _, _ := scores(t, submit(t, e, q))
	streams := []*engine.Stream{submit(t, e, long), submit(t, e, q)}
	for _, s := range streams[1:] {
		if got, _, done := scores(t, s); !equalScores(got, want) {
			t.Errorf("%d scores (%v), expected the %d of a request alone", len(got), done.Err,
				len(want))
		}
	}
	if e.Stats().Preemptions == 0 {
		t.Error("no sequence was preempted")
	}
}

// TestScoresOnMetal checks that a prompt is scored on a device that samples by itself.
func TestScoresOnMetal(t *testing.T) {
	onMetalDevices(t, func(t *testing.T, device string) {
		if compileOnly {
			t.Skip("compares results")
		}
		e := openMetal(t, device, tinySource(t, "qwen3"),
			engine.Options{ContextTokens: 256, MaxSequences: 2, ChunkTokens: 64})
		q := engine.Request{Prompt: someIDs(3, 90), ScorePrompt: true, NoAnswer: true}
		beside := submit(t, e, engine.Request{Prompt: someIDs(4, 20), MaxTokens: 8,
			IgnoreEOS: true})
		got, _, _ := scores(t, submit(t, e, q))
		again, _, done := scores(t, submit(t, e, q))
		if len(got) != 89 || !equalScores(got, again) || done.Finish != engine.FinishLength {
			t.Errorf("%d scores, then %d, %+v", len(got), len(again), done)
		}
		if _, generated, _ := scores(t, beside); len(generated) != 8 {
			t.Errorf("the other request has %d tokens, expected 8", len(generated))
		}
	})
}

func TestScoresRefuse(t *testing.T) {
	e := open(t, engine.Options{ContextTokens: 64})
	for _, c := range []struct {
		q    engine.Request
		code problem.Code
	}{
		{engine.Request{Prompt: someIDs(1, 65), NoAnswer: true}, problem.ContextExceeded},
		{engine.Request{Prompt: someIDs(1, 64)}, problem.ContextExceeded},
		{engine.Request{Prompt: []int32{1, 1 << 30}, NoAnswer: true}, problem.BadRequest},
	} {
		if _, err := e.Submit(c.q); problem.From(err).Code != c.code {
			t.Errorf("%d tokens: %v, expected %s", len(c.q.Prompt), err, c.code)
		}
	}
	if _, _, done := scores(t, submit(t, e, engine.Request{Prompt: []int32{7}, ScorePrompt: true,
		NoAnswer: true})); done.Finish != engine.FinishLength {
		t.Errorf("one token: %+v", done)
	}
}
