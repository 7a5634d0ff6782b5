package worker

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"headroom/engine"
	"headroom/engine/problem"
	"headroom/engine/sample"
)

func seed(n uint64) *uint64 { return &n }

// TestSameAsInThisProcess: a worker returns the same events, stats and finished requests as an
// engine in this process.
func TestSameAsInThisProcess(t *testing.T) {
	worker := open(t, small)
	local, err := engine.Open(t.Context(), bundled(), small)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if got, want := worker.Info(), local.Info(); got != want {
		t.Errorf("info %+v, want %+v", got, want)
	}
	if got, want := worker.Defaults(), local.Defaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	for name, r := range map[string]engine.Request{
		"greedy": {ID: "a", MaxTokens: 40},
		"sampled": {ID: "b", MaxTokens: 40,
			Sampling: sample.Params{Temperature: 0.9, TopP: 0.95, Seed: seed(7), Logprobs: 5,
				LogitBias: map[int32]float32{17: 2}}},
		"stopped": {ID: "c", MaxTokens: 40, Stop: []string{"values"}},
		"again":   {ID: "d", MaxTokens: 40},
	} {
		r.Prompt = prompt(t, local, "What is a KV cache?")
		var answers [2][]engine.Event
		for i, e := range []model{local, worker} {
			s, err := e.Submit(r)
			if err != nil {
				t.Fatal(err)
			}
			if s.ID() != r.ID {
				t.Errorf("%s: the ID is %q", name, s.ID())
			}
			answers[i] = tokens(read(t, s))
		}
		if len(answers[0]) < 3 || !reflect.DeepEqual(answers[0], answers[1]) {
			t.Errorf("%s: events\n%+v\nwant\n%+v", name, answers[1], answers[0])
		}
		want, got := local.Recent()[0], worker.Recent()[0]
		want.At, want.Timing, want.Report.KnownAt = got.At, got.Timing, got.Report.KnownAt
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the finished request is %+v, want %+v", name, got, want)
		}
		if s := worker.Stats(); s.Running+s.Waiting+len(s.Requests) != 0 {
			t.Errorf("%s: after Done the stats still count the request: %+v", name, s)
		}
	}
	want, got := local.CachedPrefixes(), worker.CachedPrefixes()
	if len(want) == 0 || len(want) != len(got) ||
		worker.Title(got[0].Tokens) != local.Title(got[0].Tokens) {
		t.Errorf("%d cached prefixes, want %d", len(got), len(want))
	}
}

// tokens removes the times and the Prefill events, which depend on timing.
func tokens(events []engine.Event) (list []engine.Event) {
	for _, e := range events {
		if e.Type != engine.Prefill {
			e.Timing = engine.Timing{}
			list = append(list, e)
		}
	}
	return list
}

// TestStop checks that Stream.Stop and Stream.Cancel reach the worker.
func TestStop(t *testing.T) {
	m := open(t, engine.Options{ContextTokens: 4096})
	for finish, end := range map[engine.FinishReason]func(*engine.Stream){
		engine.FinishStop:      (*engine.Stream).Stop,
		engine.FinishCancelled: (*engine.Stream).Cancel,
	} {
		s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "Hi"), IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		end(s)
		events := read(t, s)
		if done := events[len(events)-1]; done.Finish != finish {
			t.Errorf("finish %q, expected %q", done.Finish, finish)
		}
	}
}

// TestRefusals: the worker's Problems equal those of an engine in this process.
func TestRefusals(t *testing.T) {
	m := open(t, small)
	local, err := engine.Open(t.Context(), bundled(), small)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	for _, r := range []engine.Request{{}, {Prompt: make([]int32, 5000)}, {Prompt: []int32{-1}},
		{Prompt: []int32{1}, Sampling: sample.Params{TopP: 2}}} {
		_, err := m.Submit(r)
		_, want := local.Submit(r)
		if want == nil || !sameProblem(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	for name, o := range map[string]engine.Options{"too little memory": {AvailableBytes: 1 << 20},
		"unknown format": {KVFormat: "q17"}, "unknown device": {Device: "abacus"}} {
		_, err := Open(t.Context(), bundled(), o, Options{Log: quiet})
		_, want := engine.Open(t.Context(), bundled(), o)
		if want == nil || !sameProblem(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	_, err = Open(t.Context(), engine.Source{Dir: t.TempDir()}, small, Options{Log: quiet})
	if problem.From(err).Code != problem.ModelBroken &&
		problem.From(err).Code != problem.ModelNotFound {
		t.Errorf("an empty folder: %v", err)
	}
}

func sameProblem(got, want error) bool {
	a, b := problem.From(got), problem.From(want)
	return got != nil && a.Code == b.Code && a.Message == b.Message && a.Why == b.Why &&
		a.Fix == b.Fix && a.RetryAfter == b.RetryAfter && reflect.DeepEqual(a.Overflow, b.Overflow)
}

// TestLoading: loading reports its progress and can be cancelled.
func TestLoading(t *testing.T) {
	var progress []float64
	o := small
	o.Progress = func(done float64) { progress = append(progress, done) }
	open(t, o)
	if len(progress) == 0 || progress[len(progress)-1] != 1 {
		t.Errorf("progress %v, want it to end at 1", progress)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, bundled(), small, Options{Log: quiet})
	if problem.From(err).Code != problem.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestHistorySurvivesTheProcess: a worker knows the prompts that an earlier worker computed.
func TestHistorySurvivesTheProcess(t *testing.T) {
	o := small
	o.History = engine.NewHistory()
	ask := func() engine.Finished {
		m := open(t, o)
		s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "What is a KV cache?"),
			MaxTokens: 4})
		if err != nil {
			t.Fatal(err)
		}
		read(t, s)
		recent := m.Recent()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		return recent[0]
	}
	if first := ask(); first.Report.Break != -1 {
		t.Errorf("the first time: %+v", first.Report)
	}
	if second := ask(); second.Report.CommonTokens != second.Usage.PromptTokens {
		t.Errorf("the second time: %+v, want the whole prompt to be known", second.Report)
	}
}

// TestBlockStore: a worker opens the block store and finds the blocks that an earlier worker wrote.
func TestBlockStore(t *testing.T) {
	store, err := engine.OpenBlockStore(t.TempDir(),
		engine.BlockStoreOptions{MaxBytes: 1 << 30, MinFreeBytes: -1, DailyWriteBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o := small
	o.BlockStore, o.ModelName = store, "demo"
	for _, wantStored := range []bool{false, true} {
		m := open(t, o)
		if m.StoredModel().Name != "demo" || m.StoredModel().Fingerprint == "" {
			t.Errorf("stored as %+v", m.StoredModel())
		}
		long := prompt(t, m, "What is a KV cache?")
		for len(long) < 1000 {
			long = append(long, long...)
		}
		s, err := m.Submit(engine.Request{Prompt: long[:1000], MaxTokens: 2})
		if err != nil {
			t.Fatal(err)
		}
		events := read(t, s)
		if got := events[len(events)-1].Usage.StoredTokens > 0; got != wantStored {
			t.Errorf("usage %+v, want tokens from disk: %t", events[len(events)-1].Usage,
				wantStored)
		}
		m.SetStoreLimits(engine.BlockStoreLimits{MaxBytes: 1 << 29, MinFreeBytes: -1,
			DailyWriteBytes: -1})
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if s := store.Stats(); s.Entries == 0 || s.Hits == 0 {
		t.Errorf("the store's stats: %+v", s)
	}
}

// TestForget: a forgotten conversation is computed again.
func TestForget(t *testing.T) {
	m := open(t, small)
	question := prompt(t, m, "What is a KV cache?")
	cached := func() int {
		s, err := m.Submit(engine.Request{Prompt: question, MaxTokens: 4})
		if err != nil {
			t.Fatal(err)
		}
		events := read(t, s)
		return events[len(events)-1].Usage.CachedTokens
	}
	for name, forget := range map[string]func() int64{
		"one": func() int64 { return m.Forget(question) }, "all": m.ForgetAll} {
		cached()
		if cached() == 0 {
			t.Fatalf("%s: nothing is cached before", name)
		}
		freed := forget()
		if tokens := cached(); freed <= 0 || tokens != 0 {
			t.Errorf("%s: freed %d bytes and found %d cached tokens, want more than 0 and none",
				name, freed, tokens)
		}
	}
}

// TestDraftGainReachesTheWorker: a worker does not decode ahead for a gain that no pass has. The
// demo model's block drafts the same answer before.
func TestDraftGainReachesTheWorker(t *testing.T) {
	o := small
	o.Speculate = engine.SpeculateAuto
	m := open(t, o)
	drafts := func() int {
		s, err := m.Submit(engine.Request{Prompt: prompt(t, m, "Tell me a story."), MaxTokens: 200,
			IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		all := read(t, s)
		return all[len(all)-1].Usage.DraftTokens
	}
	if drafts() == 0 {
		t.Skip("this machine is too busy to decode ahead")
	}
	m.SetDraftGain(1e6)
	if n := drafts(); n > 0 {
		t.Errorf("%d drafts, expected none", n)
	}
}
