package host

import (
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/cachemiss"
	"headroom/engine/draft"
)

// TestFinished lists the finished requests of the running model. State.LastFinished changes when
// there is a new one.
func TestFinished(t *testing.T) {
	h := newTestHost(t)
	if list := h.Finished(); list.Requests == nil || len(list.Requests) != 0 ||
		h.State().LastFinished != "" {
		t.Errorf("without a model: %+v, LastFinished %q", list, h.State().LastFinished)
	}
	at := time.UnixMilli(1_700_000_000_250)
	e := h.run("a")
	if got := h.State().LastFinished; got != "" {
		t.Errorf("before any request has finished: LastFinished %q", got)
	}
	e.recent = []engine.Finished{
		{ID: "private", At: at, Private: true, Usage: engine.Usage{PromptTokens: 9}},
		{ID: "new", Title: "Plan a week", Client: "curl", Key: "ci", At: at,
			Finish: engine.FinishStop, BlockHits: 2, BlockWrites: 3,
			Usage: engine.Usage{PromptTokens: 1000, PromptDoneTokens: 1000, CachedTokens: 700,
				StoredTokens: 512, CompletionTokens: 41, DraftTokens: 30,
				AcceptedTokens: 20},
			Timing: engine.Timing{Queued: time.Second / 4, Prefill: 2 * time.Second,
				FirstToken: 2250 * time.Millisecond, Decode: 4 * time.Second,
				LongestGap: time.Second / 2, DecodeSteps: 40, Saved: 2 * time.Second},
			Report: cachemiss.Report{Break: 700, CommonTokens: 700, ReadTokens: 300,
				RecomputedTokens: 280,
				Before:           "It is ",
				Was:              "10:01", Is: "10:02", Cause: cachemiss.DateChanged,
				Advice:  "Leave it out.",
				KnownAt: at.Add(-time.Minute)}},
		{ID: "cancelled", Finish: engine.FinishCancelled,
			NoDrafts: engine.NoDrafts{Cause: draft.Off},
			Usage:    engine.Usage{PromptTokens: 1000, PromptDoneTokens: 0, CachedTokens: 64}},
	}
	want := Finished{ID: "new", Title: "Plan a week", Client: "curl", Key: "ci", Model: "a",
		EndedAtUnixMs: 1_700_000_000_250, FinishReason: "stop",
		PromptTokens: 1000, ComputedTokens: 300, MemoryTokens: 188,
		DiskTokens: 512, GeneratedTokens: 41, DraftTokens: 30, AcceptedTokens: 20,
		Speedup: 1.5, SavedSeconds: 2, BlockHits: 2, BlockWrites: 3, QueuedSeconds: 0.25,
		PrefillSeconds: 2, FirstTokenSeconds: 2.25, DecodeSeconds: 4,
		LongestGapSeconds: 0.5, PrefillTokensPerSecond: 150, DecodeTokensPerSecond: 10,
		CacheMiss: CacheMiss{Cause: "date_changed", Advice: "Leave it out.", FirstDifference: 700,
			RecomputedTokens: 280, CommonTokens: 700, CommonText: "It is ",
			PreviousText: "10:01", PromptText: "10:02",
			PreviousAtUnixMs: 1_700_000_000_250 - 60_000}}
	got := h.Finished().Requests
	if len(got) != 2 || got[0] != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got[1].NoDrafts != "Decoding ahead is off." {
		t.Errorf("no drafts: %q", got[1].NoDrafts)
	}
	if got[1].ComputedTokens != 0 || got[1].PrefillTokensPerSecond != 0 ||
		got[1].CacheMiss.PreviousAtUnixMs != 0 {
		t.Errorf("cancelled before prefill: %+v", got[1])
	}
	if got := h.State().LastFinished; got != "new" {
		t.Errorf("LastFinished %q, want new", got)
	}
}

// TestNoDrafts: the state says why nothing was drafted in the last minutes, by the newest request
// that could have had drafts.
func TestNoDrafts(t *testing.T) {
	h := newTestHost(t)
	e := h.run("a")
	request := func(age time.Duration, cause draft.Cause, drafts int) engine.Finished {
		return engine.Finished{At: time.Now().Add(-age), NoDrafts: engine.NoDrafts{Cause: cause},
			Usage: engine.Usage{DraftTokens: drafts}}
	}
	for _, c := range []struct {
		name   string
		recent []engine.Finished
		want   draft.Cause
	}{
		{"no requests", nil, draft.NoCause},
		{"the newest", []engine.Finished{request(0, draft.Costly, 0),
			request(time.Minute, draft.Reading, 0)}, draft.Costly},
		{"a short answer", []engine.Finished{request(0, draft.Short, 0),
			request(0, draft.NoCause, 0), request(time.Minute, draft.Reading, 0)}, draft.Reading},
		{"only short answers", []engine.Finished{request(0, draft.Short, 0)}, draft.Short},
		{"drafts", []engine.Finished{request(0, draft.Costly, 0), request(0, draft.NoCause, 9)},
			draft.NoCause},
		{"drafts of long ago", []engine.Finished{request(0, draft.Costly, 0),
			request(time.Hour, draft.NoCause, 9)}, draft.Costly},
		{"only requests of long ago", []engine.Finished{request(time.Hour, draft.Costly, 0)},
			draft.NoCause},
	} {
		e.recent = c.recent
		want := engine.NoDrafts{Cause: c.want}.Sentence()
		if s := h.State(); s.Engine.NoDrafts != want || s.Engines[0].NoDrafts != want {
			t.Errorf("%s: %q and %q, expected %q", c.name, s.Engine.NoDrafts, s.Engines[0].NoDrafts,
				want)
		}
	}
}
