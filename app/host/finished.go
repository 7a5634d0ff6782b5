package host

// Requests that have ended: what they cost, and why their prompt was read again. The engine keeps
// the last ones; they go with it.

import (
	"time"

	"headroom/engine"
	"headroom/engine/cachemiss"
)

// Finished is one of them. Times are in seconds, rates in tokens per second; a prompt's tokens are
// those from memory, those from disk, those that were computed, and where it was cancelled early
// the rest.
type Finished struct {
	ID            string              `json:"id"`
	Model         string              `json:"model"`
	EndedAtUnixMs int64               `json:"endedAt"`
	Finish        engine.FinishReason `json:"finish"`

	PromptTokens    int `json:"promptTokens"`
	ComputedTokens  int `json:"computedTokens"`
	MemoryTokens    int `json:"memoryTokens"`
	DiskTokens      int `json:"diskTokens"`
	GeneratedTokens int `json:"generatedTokens"`
	BlockHits       int `json:"blockHits"`   // blocks read from disk
	BlockWrites     int `json:"blockWrites"` // and written to it

	QueuedSeconds          float64 `json:"queuedSeconds"`
	PrefillSeconds         float64 `json:"prefillSeconds"`
	FirstTokenSeconds      float64 `json:"firstTokenSeconds"` // from the request on
	DecodeSeconds          float64 `json:"decodeSeconds"`
	LongestGapSeconds      float64 `json:"longestGapSeconds"` // between two tokens
	PrefillTokensPerSecond float64 `json:"prefillTokensPerSecond"`
	DecodeTokensPerSecond  float64 `json:"decodeTokensPerSecond"`

	Reread Reread `json:"reread"`
}

// Reread is why a prompt, or its end, was read again; see cachemiss.Report.
type Reread struct {
	Cause  cachemiss.Cause `json:"cause"`
	Advice string          `json:"advice"`
	// the first that was not as known; -1: nothing began like this
	BreakToken    int    `json:"breakToken"`
	KnownTokens   int    `json:"knownTokens"`
	Before        string `json:"before"` // what both have before the first difference
	Was           string `json:"was"`
	Is            string `json:"is"`
	KnownAtUnixMs int64  `json:"knownAt"` // when what was known ended; 0: unknown
}

// FinishedList is the document of them.
type FinishedList struct {
	Requests []Finished `json:"requests"` // the one that ended last first
}

// Finished lists the requests of the running model that have ended, at most the last 64; none
// without a model.
func (h *Host) Finished() FinishedList {
	list := FinishedList{Requests: []Finished{}}
	h.mu.Lock()
	t := h.running()
	h.mu.Unlock()
	if t == nil {
		return list
	}
	for _, f := range t.engine.Recent() {
		list.Requests = append(list.Requests, finished(f, t.model.ID))
	}
	return list
}

func finished(f engine.Finished, model string) Finished {
	u, t := f.Usage, f.Timing
	v := Finished{ID: f.ID, Model: model, EndedAtUnixMs: f.At.UnixMilli(), Finish: f.Finish,
		PromptTokens: u.PromptTokens, ComputedTokens: max(0, u.PromptDoneTokens-u.CachedTokens),
		MemoryTokens: u.CachedTokens - u.StoredTokens,
		DiskTokens:   u.StoredTokens, GeneratedTokens: u.CompletionTokens, BlockHits: f.BlockHits,
		BlockWrites:   f.BlockWrites,
		QueuedSeconds: t.Queued.Seconds(), PrefillSeconds: t.Prefill.Seconds(),
		FirstTokenSeconds: t.FirstToken.Seconds(),
		DecodeSeconds:     t.Decode.Seconds(), LongestGapSeconds: t.LongestGap.Seconds(),
		DecodeTokensPerSecond: t.DecodeTokensPerSecond(),
		Reread: Reread{Cause: f.Report.Cause, Advice: f.Report.Advice, BreakToken: f.Report.Break,
			KnownTokens: f.Report.CommonTokens,
			Before:      f.Report.Before, Was: f.Report.Was, Is: f.Report.Is,
			KnownAtUnixMs: unixMs(f.Report.KnownAt)}}
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

func lastFinished(e Engine) string {
	if list := e.Recent(); len(list) > 0 {
		return list[0].ID
	}
	return ""
}
