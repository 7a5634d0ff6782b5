package engine_test

// What drafts gained, and why there were none.

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/draft"
	"headroom/engine/sample"
)

// TestSpeedup: if all passes take a second, each right draft saves one, and wrong ones cost
// nothing. The sums of the engine are those of its requests, and the log has the same.
func TestSpeedup(t *testing.T) {
	var log bytes.Buffer
	logTo(t, slog.NewTextHandler(&log, nil))
	e := open(t, engine.Options{Speculate: engine.SpeculateLookup})
	e.FreeRows()
	line := "The quick brown fox jumps over the lazy dog by the river. "
	var saved, decode time.Duration
	for _, r := range []engine.Request{
		{Prompt: encode(e, strings.Repeat(line, 12)), MaxTokens: 60, IgnoreEOS: true},
		{Prompt: encode(e, "What is 76 - 27?"), MaxTokens: 20, IgnoreEOS: true,
			Speculate: engine.SpeculateOff},
	} {
		_, _, done := collect(t, submit(t, e, r))
		want := time.Duration(done.Usage.AcceptedTokens) * time.Second
		if got := done.Timing.Saved; got != want || want == 0 && r.Speculate == "" {
			t.Errorf("%d drafts were right: saved %v, expected %v", done.Usage.AcceptedTokens, got,
				want)
		}
		d := done.Timing.Decode
		if got, want := done.Timing.Speedup(), (d+want).Seconds()/d.Seconds(); got != want {
			t.Errorf("gained %v, expected %v", got, want)
		}
		saved, decode = saved+done.Timing.Saved, decode+d
	}
	s := e.Stats()
	if s.SavedSeconds != saved.Seconds() || s.DecodeSeconds != decode.Seconds() ||
		s.Speedup() != (decode+saved).Seconds()/decode.Seconds() {
		t.Errorf("saved %v of %v s, gained %v, expected %v of %v", s.SavedSeconds, s.DecodeSeconds,
			s.Speedup(), saved, decode)
	}
	e.Recent()
	if !strings.Contains(log.String(), ` gained=1 no_drafts=asked_off no_drafts_why="The request `) ||
		!strings.Contains(log.String(), ` no_drafts="" no_drafts_why="" `) {
		t.Errorf("the log has %s", log.String())
	}
}

// TestThrottledGain: an engine that idles for three quarters of the time saves four times as much,
// since it would also have idled after the passes that were saved.
func TestThrottledGain(t *testing.T) {
	e := open(t, engine.Options{Speculate: engine.SpeculateLookup})
	e.FreeRows()
	e.OnPause(func(time.Duration) {})
	e.SetDutyCycle(0.25)
	line := "The quick brown fox jumps over the lazy dog by the river. "
	_, _, done := collect(t, submit(t, e, engine.Request{
		Prompt: encode(e, strings.Repeat(line, 12)), MaxTokens: 40, IgnoreEOS: true}))
	want := 4 * time.Duration(done.Usage.AcceptedTokens) * time.Second
	if got := done.Timing.Saved; got != want || got == 0 {
		t.Errorf("saved %v, expected %v", got, want)
	}
}

// TestWhyNoDrafts: an answer without drafts says why, in its Done event and among the recent
// requests.
func TestWhyNoDrafts(t *testing.T) {
	line := "The quick brown fox jumps over the lazy dog by the river. "
	unlike := engine.Request{Prompt: []int32{7}, MaxTokens: 3, IgnoreEOS: true}
	like := engine.Request{MaxTokens: 40, IgnoreEOS: true}
	for _, c := range []struct {
		name  string
		o     engine.Options
		set   func(e *engine.Engine)
		r     engine.Request
		cause draft.Cause
	}{
		{"off", engine.Options{}, nil, like, draft.Off},
		{"unsupported", engine.Options{Speculate: engine.SpeculateAuto, MaxKVTokens: 512}, nil,
			like, draft.Unsupported},
		{"asked off", engine.Options{Speculate: engine.SpeculateAuto}, nil,
			engine.Request{MaxTokens: 9, Speculate: engine.SpeculateOff}, draft.AskedOff},
		{"another way", engine.Options{Speculate: engine.SpeculateLookup}, nil,
			engine.Request{MaxTokens: 9, Speculate: engine.SpeculateMTP}, draft.AskedOther},
		{"one token", engine.Options{Speculate: engine.SpeculateAuto}, nil,
			engine.Request{MaxTokens: 1}, draft.Short},
		{"no match", engine.Options{Speculate: engine.SpeculateLookup}, nil, unlike,
			draft.NoMatch},
		{"full", engine.Options{Speculate: engine.SpeculateLookup, ChunkTokens: 1, MaxSequences: 1},
			nil, like, draft.Full},
		{"forced", engine.Options{Speculate: engine.SpeculateAuto}, nil,
			engine.Request{Prompt: []int32{7}, MaxTokens: 60,
				Output: formOf(`root ::= "the quick brown fox jumps over the lazy dog"`)},
			draft.Forced},
		{"saving", engine.Options{Speculate: engine.SpeculateMTP}, func(e *engine.Engine) {
			e.SetDraftGain(0.5 + draft.DefaultGain*1000)
		}, like, draft.Saving},
		{"drafts", engine.Options{Speculate: engine.SpeculateAuto}, nil, like, draft.NoCause},
		{"nothing is generated", engine.Options{Speculate: engine.SpeculateAuto}, nil,
			engine.Request{NoAnswer: true}, draft.NoCause},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := open(t, c.o)
			e.FreeRows()
			if c.set != nil {
				c.set(e)
			}
			if c.r.Prompt == nil {
				c.r.Prompt = encode(e, strings.Repeat(line, 12))
			}
			_, _, done := collect(t, submit(t, e, c.r))
			if got := done.NoDrafts; got.Cause != c.cause || done.Usage.DraftTokens > 0 !=
				(c.name == "drafts") {
				t.Errorf("%d drafts: %+v (%s), expected %s", done.Usage.DraftTokens, got,
					got.Sentence(), c.cause)
			}
			if got := e.Recent()[0].NoDrafts; got != done.NoDrafts {
				t.Errorf("recent: %+v, expected %+v", got, done.NoDrafts)
			}
		})
	}
}

// TestWhyNoDraftModel: a draft model does not draft where a token is beyond its vocabulary, where a
// short answer would not make up for reading a long prompt, nor where its drafts are wrong.
func TestWhyNoDraftModel(t *testing.T) {
	for _, c := range []struct {
		name   string
		prompt []int32
		cause  draft.Cause
	}{
		{"a token that it lacks", []int32{1, 2, 255, 3}, draft.Beyond},
		{"a long prompt", slices.Repeat([]int32{1, 2, 3}, 300), draft.Reading},
		{"random weights", []int32{1, 2, 3}, draft.Costly},
	} {
		e := openModel(t, ofVocabulary(256), engine.Options{ContextTokens: 1024, MaxSequences: 1,
			Speculate: engine.SpeculateDraft, DraftModel: &engine.DraftModel{
				Source: ofVocabulary(254), Name: "small", Required: true}})
		e.FreeRows()
		_, _, done := collect(t, submit(t, e, engine.Request{Prompt: c.prompt, MaxTokens: 12,
			IgnoreEOS: true}))
		if got := done.NoDrafts.Cause; got != c.cause {
			t.Errorf("%s: %d drafts, %q, expected %q", c.name, done.Usage.DraftTokens, got, c.cause)
		}
	}
}

// TestWhyNoDraftsOfARandomAnswer: wrong drafts of the model's block are not worth their time, and
// the figures say so.
func TestWhyNoDraftsOfARandomAnswer(t *testing.T) {
	e := open(t, engine.Options{Speculate: engine.SpeculateMTP})
	r := engine.Request{Prompt: encode(e, "What is 76 - 27?"), MaxTokens: 60, IgnoreEOS: true,
		Sampling: sample.Params{Temperature: 1e6, Seed: new(uint64(1))}}
	for range 8 {
		_, _, done := collect(t, submit(t, e, r))
		why := done.NoDrafts
		if done.Usage.DraftTokens > 0 || why.Cause == draft.Measuring {
			continue // the first answers measure
		}
		if why.Cause != draft.Costly || (1+why.Right)/why.Time > draft.DefaultGain+1e-9 {
			t.Errorf("%+v", why)
		}
		return
	}
	t.Error("random answers always had drafts, or none was measured")
}
