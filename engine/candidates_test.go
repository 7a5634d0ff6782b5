package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

// candidates reads a stream to its end. It returns the log-probabilities of the candidates.
func candidates(t *testing.T, s *engine.Stream) (logprobs []float32, done engine.Event) {
	t.Helper()
	for e, err := s.Next(context.Background()); err == nil; e, err = s.Next(context.Background()) {
		switch e.Type {
		case engine.Scored:
			if logprobs != nil || e.Position != e.Usage.PromptTokens || len(e.Scores) > 0 {
				t.Errorf("a Scored event at position %d with %d scores after %v", e.Position,
					len(e.Scores), logprobs)
			}
			logprobs = e.Candidates
		case engine.Token:
			t.Error("a token was generated")
		case engine.Done:
			done = e
		}
	}
	return logprobs, done
}

// TestCandidates checks the log-probabilities of candidates against those of the most likely tokens
// that a generation reports. They have the same bits in chunks of any size, in a batch, after a
// cached prefix, from disk after a restart, and after a preemption.
func TestCandidates(t *testing.T) {
	cold := open(t, engine.Options{NoPrefixCache: true, MaxSequences: 1})
	head := system("Answer briefly. ", 100)
	var requests []engine.Request
	var want [][]float32
	for _, q := range append(questions, "What is 76 - 27?") {
		prompt := encode(cold, head+"<|im_start|>user\n"+q+"<|im_end|>\n<|im_start|>assistant\n")
		s := submit(t, cold, engine.Request{Prompt: prompt, MaxTokens: 1,
			Sampling: sample.Params{Logprobs: 20}})
		r := engine.Request{Prompt: prompt}
		var logprobs []float32
		for e, err := s.Next(context.Background()); err == nil; e,
			err = s.Next(context.Background()) {
			for _, top := range e.Top {
				r.Candidates = append(r.Candidates, top.Token)
				logprobs = append(logprobs, top.Logprob)
			}
		}
		if len(logprobs) != 20 {
			t.Fatalf("%d most likely tokens, expected 20", len(logprobs))
		}
		requests, want = append(requests, r), append(want, logprobs)
	}
	check := func(how string, e *engine.Engine, cached bool) {
		t.Helper()
		var streams []*engine.Stream
		for _, r := range requests {
			streams = append(streams, submit(t, e, r))
		}
		for i, s := range streams {
			got, done := candidates(t, s)
			if !slices.Equal(got, want[i]) || done.Finish != engine.FinishLength ||
				done.Usage.CompletionTokens != 0 {
				t.Errorf("%s, request %d: %v (%s, %d tokens, %v), expected %v", how, i, got,
					done.Finish, done.Usage.CompletionTokens, done.Err, want[i])
			}
			if n := len(requests[i].Prompt); cached && done.Usage.CachedTokens != n-1 {
				t.Errorf("%s, request %d: %d of %d tokens were cached, expected all but the last",
					how, i, done.Usage.CachedTokens, n)
			}
		}
		idle(t, e)
	}
	check("alone", cold, false)
	check("in chunks", open(t, engine.Options{ChunkTokens: 33, MaxSequences: 1}), false)
	dir := t.TempDir()
	store := openStore(t, dir)
	e := open(t, engine.Options{ChunkTokens: 64, BlockStore: store})
	check("in a batch", e, false)
	check("cached", e, true)
	e.Close()
	store.Close()
	store = openStore(t, dir)
	e = open(t, engine.Options{BlockStore: store})
	check("after a restart", e, false)
	if e.Stats().CachedTokens == 0 {
		t.Error("nothing was read from disk")
	}
}

// TestCandidatesAfterPreemption checks that candidates are scored once if a longer answer takes the
// pages of their prompt.
func TestCandidatesAfterPreemption(t *testing.T) {
	e := open(t, withPages(t, engine.Options{MaxSequences: 2, ChunkTokens: 4, ContextTokens: 256},
		9))
	q := engine.Request{Prompt: someIDs(3, 200), Candidates: []int32{1, 2, 3}}
	want, _ := candidates(t, submit(t, e, q))
	e.ForgetAll()
	long := submit(t, e, engine.Request{Prompt: someIDs(4, 60), MaxTokens: 190, IgnoreEOS: true,
		Priority: 1})
	if got, done := candidates(t, submit(t, e, q)); !slices.Equal(got, want) || len(got) != 3 {
		t.Errorf("%v (%v), expected %v as alone", got, done.Err, want)
	}
	if collect(t, long); e.Stats().Preemptions == 0 {
		t.Error("no sequence was preempted")
	}
}

// TestSecondQuestion checks that a second question about a long text computes its own tokens only,
// though the requests of both do not generate anything.
func TestSecondQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		source engine.Source
		tokens int
	}{"recurrent": {demoSource(t), 8192}, "attention": {tinySource(t, "qwen3"), 1900}} {
		if testing.Short() { // under the race detector
			c.tokens = min(c.tokens, 2048)
		}
		t.Run(name, func(t *testing.T) {
			e := openModel(t, c.source, engine.Options{ContextTokens: c.tokens + 100})
			text := someIDs(3, c.tokens)
			ask := func(own []int32) engine.Usage {
				t.Helper()
				_, done := candidates(t, submit(t, e, engine.Request{
					Prompt: slices.Concat(text, own), Candidates: []int32{1, 2}}))
				return done.Usage
			}
			first := ask(someIDs(4, 40))
			second := ask(someIDs(5, 50))
			own := second.PromptTokens - second.CachedTokens
			if first.CachedTokens > 0 || own < 50-1 || own > 50 { // they may begin alike
				t.Errorf("the first question: %+v, the second: %+v; expected 50 tokens to be "+
					"computed", first, second)
			}
		})
	}
}

// TestCandidatesOnMetal checks candidates on a device that samples by itself.
func TestCandidatesOnMetal(t *testing.T) {
	onMetalDevices(t, func(t *testing.T, device string) {
		if compileOnly {
			t.Skip("compares results")
		}
		e := openMetal(t, device, tinySource(t, "qwen3"),
			engine.Options{ContextTokens: 256, MaxSequences: 2, ChunkTokens: 64})
		q := engine.Request{Prompt: someIDs(3, 90), Candidates: []int32{5, 1, 5}}
		beside := submit(t, e, engine.Request{Prompt: someIDs(4, 20), MaxTokens: 8,
			IgnoreEOS: true})
		got, _ := candidates(t, submit(t, e, q))
		again, done := candidates(t, submit(t, e, q))
		if len(got) != 3 || got[0] != got[2] || got[0] == got[1] || !slices.Equal(got, again) ||
			done.Finish != engine.FinishLength {
			t.Errorf("%v, then %v, %+v", got, again, done)
		}
		if _, generated, _ := scores(t, beside); len(generated) != 8 {
			t.Errorf("the other request has %d tokens, expected 8", len(generated))
		}
	})
}

func TestCandidatesRefused(t *testing.T) {
	e := open(t, engine.Options{ContextTokens: 64})
	for _, c := range []struct {
		q    engine.Request
		code problem.Code
		part string
	}{
		{engine.Request{Prompt: someIDs(1, 65), Candidates: []int32{1}}, problem.ContextExceeded,
			"64"},
		{engine.Request{Prompt: []int32{1}, Candidates: []int32{0, 1 << 30}}, problem.BadRequest,
			"candidate"},
		{engine.Request{Prompt: []int32{1}, Candidates: []int32{-1}}, problem.BadRequest,
			"candidate"},
		{engine.Request{Prompt: []int32{1}, Candidates: []int32{1}, ScorePrompt: true},
			problem.BadRequest, "not both"},
	} {
		_, err := e.Submit(c.q)
		if problem.From(err).Code != c.code || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%+v: %v, expected %s with %q", c.q, err, c.code, c.part)
		}
	}
	got, done := candidates(t, submit(t, e, engine.Request{Prompt: someIDs(1, 64),
		Candidates: []int32{7}}))
	if len(got) != 1 || done.Finish != engine.FinishLength {
		t.Errorf("a prompt as long as the context: %v, %+v", got, done)
	}
}

// TestNoCacheLeavesNothing checks that a request which is not cached, though it is not private
// either, is not written to disk and not remembered.
func TestNoCacheLeavesNothing(t *testing.T) {
	store := openStore(t, t.TempDir())
	e := open(t, engine.Options{BlockStore: store})
	q := engine.Request{Prompt: someIDs(3, 600), Candidates: []int32{1}, NoCache: true}
	for _, noCache := range []bool{true, true, false, false} {
		q.NoCache = noCache
		if _, done := candidates(t, submit(t, e, q)); done.Err != nil {
			t.Fatal(done.Err)
		}
	}
	for i, f := range e.Recent() {
		cause, writes := "new_conversation", 0
		switch i {
		case 0: // the last one
			cause = "continued"
		case 1:
			writes = 2
		}
		if string(f.Report.Cause) != cause || f.BlockWrites != writes {
			t.Errorf("request %d: %s, %d blocks, expected %s, %d", 3-i, f.Report.Cause,
				f.BlockWrites, cause, writes)
		}
	}
}
