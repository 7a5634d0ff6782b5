package host

// Finished requests: what they cost, and why tokens of their prompts were computed again. Each
// engine keeps the most recent ones until it is unloaded.

import (
	"cmp"
	"slices"
	"time"

	"headroom/engine"
	"headroom/engine/cachemiss"
	"headroom/engine/draft"
)

// Finished is a finished request. Times are in seconds, rates in tokens per second. MemoryTokens,
// DiskTokens and ComputedTokens add up to PromptTokens unless the request was cancelled during
// prefill.
type Finished struct {
	ID            string              `json:"id"`
	Title         string              `json:"title"`  // first words of the conversation
	Client        string              `json:"client"` // program that sent it; "": unknown
	Key           string              `json:"key"`    // name of its API key; "": none
	Model         string              `json:"model"`
	EndedAtUnixMs int64               `json:"endedAt"`
	FinishReason  engine.FinishReason `json:"finishReason"`

	PromptTokens    int `json:"promptTokens"`
	ComputedTokens  int `json:"computedTokens"`
	MemoryTokens    int `json:"memoryTokens"`
	DiskTokens      int `json:"diskTokens"`
	GeneratedTokens int `json:"generatedTokens"`
	DraftTokens     int `json:"draftTokens"`    // drafted, to be decoded ahead
	AcceptedTokens  int `json:"acceptedTokens"` // of DraftTokens, those that the model chose too
	// Speedup is how many times as fast as without drafts the answer was decoded, by estimate, and
	// SavedSeconds the time that drafts saved; negative: they cost time.
	Speedup      float64 `json:"gained"`
	SavedSeconds float64 `json:"savedSeconds"`
	NoDrafts     string  `json:"noDrafts"` // why nothing was drafted, as a sentence; "": something was

	BlockHits   int `json:"blockHits"`   // blocks read from the cache on SSD
	BlockWrites int `json:"blockWrites"` // blocks written to it

	QueuedSeconds          float64 `json:"queuedSeconds"`
	PrefillSeconds         float64 `json:"prefillSeconds"`
	FirstTokenSeconds      float64 `json:"firstTokenSeconds"` // since the request arrived
	DecodeSeconds          float64 `json:"decodeSeconds"`
	LongestGapSeconds      float64 `json:"longestGapSeconds"` // between two tokens
	PrefillTokensPerSecond float64 `json:"prefillTokensPerSecond"`
	DecodeTokensPerSecond  float64 `json:"decodeTokensPerSecond"`

	CacheMiss CacheMiss `json:"cacheMiss"`
}

// CacheMiss says why a prompt, or its end, was computed again; see cachemiss.Report.
type CacheMiss struct {
	Cause  cachemiss.Cause `json:"cause"`
	Advice string          `json:"advice"`
	// FirstDifference is the first token that differs from the known prompt; -1: none is similar.
	FirstDifference int `json:"firstDifference"`
	// RecomputedTokens of the computed ones had been computed before. The others are new.
	RecomputedTokens int    `json:"recomputedTokens"`
	CommonTokens     int    `json:"commonTokens"`
	CommonText       string `json:"commonText"` // common text before the first difference
	PreviousText     string `json:"previousText"`
	PromptText       string `json:"promptText"`
	PreviousAtUnixMs int64  `json:"previousAt"` // when the known request ended; 0: unknown
}

// FinishedList is the document of /control/requests/recent.
type FinishedList struct {
	Requests []Finished `json:"requests"` // the newest first
}

// maxFinished bounds the list of finished requests. Each engine keeps as many.
const maxFinished = 64

// Finished lists the most recently finished requests of the loaded models, at most maxFinished.
// Private ones are not listed. Without a loaded model the list is empty.
func (h *Host) Finished() FinishedList {
	list := FinishedList{Requests: []Finished{}}
	targets := h.runningTargets()
	for _, t := range targets {
		for _, f := range t.engine.Recent() {
			if !f.Private {
				list.Requests = append(list.Requests, finished(f, t.model.ID))
			}
		}
	}
	if len(targets) > 1 {
		slices.SortStableFunc(list.Requests,
			func(a, b Finished) int { return cmp.Compare(b.EndedAtUnixMs, a.EndedAtUnixMs) })
	}
	list.Requests = list.Requests[:min(len(list.Requests), maxFinished)]
	return list
}

func finished(f engine.Finished, model string) Finished {
	u, t := f.Usage, f.Timing
	v := Finished{ID: f.ID, Title: f.Title, Client: f.Client, Key: f.Key, Model: model,
		EndedAtUnixMs: f.At.UnixMilli(), FinishReason: f.Finish,
		PromptTokens: u.PromptTokens, ComputedTokens: max(0, u.PromptDoneTokens-u.CachedTokens),
		MemoryTokens: u.CachedTokens - u.StoredTokens,
		DiskTokens:   u.StoredTokens, GeneratedTokens: u.CompletionTokens,
		DraftTokens: u.DraftTokens, AcceptedTokens: u.AcceptedTokens,
		Speedup: t.Speedup(), SavedSeconds: t.Saved.Seconds(), NoDrafts: f.NoDrafts.Sentence(),
		BlockHits: f.BlockHits, BlockWrites: f.BlockWrites,
		QueuedSeconds: t.Queued.Seconds(), PrefillSeconds: t.Prefill.Seconds(),
		FirstTokenSeconds: t.FirstToken.Seconds(),
		DecodeSeconds:     t.Decode.Seconds(), LongestGapSeconds: t.LongestGap.Seconds(),
		DecodeTokensPerSecond: t.DecodeTokensPerSecond(),
		CacheMiss: CacheMiss{Cause: f.Report.Cause, Advice: f.Report.Advice,
			FirstDifference: f.Report.Break, CommonTokens: f.Report.CommonTokens,
			CommonText: f.Report.Before, PreviousText: f.Report.Was, PromptText: f.Report.Is,
			PreviousAtUnixMs: unixMs(f.Report.KnownAt)}}
	v.CacheMiss.RecomputedTokens = min(f.Report.RecomputedTokens, v.ComputedTokens)
	if t.Prefill > 0 {
		v.PrefillTokensPerSecond = float64(v.ComputedTokens) / t.Prefill.Seconds()
	}
	return v
}

func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// recentTime is for how long a finished request tells what the engine does.
const recentTime = 10 * time.Minute

// addNoDrafts adds to each engine why its latest requests had no drafts.
func (s *State) addNoDrafts(targets []*target, now time.Time) {
	for _, t := range targets {
		why := noDrafts(t.engine.Recent(), now).Sentence()
		for i := range s.Engines {
			if s.Engines[i].Model == t.model.ID {
				s.Engines[i].NoDrafts = why
			}
		}
		if s.Engine.Model == t.model.ID {
			s.Engine.NoDrafts = why
		}
	}
}

// noDrafts returns why the requests of the last minutes, the newest first, had no drafts: the
// reason of the newest one that was long enough to have some. There is none if a request had
// drafts, or if none generated anything.
func noDrafts(recent []engine.Finished, now time.Time) (why engine.NoDrafts) {
	for _, f := range recent {
		switch {
		case now.Sub(f.At) > recentTime:
			return why
		case f.Usage.DraftTokens > 0:
			return engine.NoDrafts{}
		case why.Cause == draft.NoCause,
			why.Cause == draft.Short && f.NoDrafts.Cause != draft.NoCause:
			why = f.NoDrafts
		}
	}
	return why
}

// lastFinished returns the ID of the listed request that finished last, "" for none.
func lastFinished(targets []*target) (id string) {
	var at time.Time
	for _, t := range targets {
		list := t.engine.Recent()
		n := slices.IndexFunc(list, func(f engine.Finished) bool { return !f.Private })
		if n >= 0 && (id == "" || list[n].At.After(at)) {
			id, at = list[n].ID, list[n].At
		}
	}
	return id
}
