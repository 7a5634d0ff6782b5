package engine

// What a request leaves behind: a PERF line in the log, and a Finished for the UI, which says why
// tokens were read again.
//
// The engine's goroutine only puts an ended request into a list. The comparison of a prompt with
// what is known runs in Submit, on its caller's goroutine, before the prompt itself becomes known;
// words are made of it and the line is written by a goroutine of this file, or by the caller of
// Recent if that comes first. So neither long prompts nor a slow log hold a running stream up.

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"headroom/engine/cachemiss"
)

// History is what was computed lately, as token ids. Engines that run one after the other share
// one, so that it can be told when a prompt is read again because model or cache format changed.
type History = cachemiss.Log

// NewHistory is an empty History.
func NewHistory() *History { return cachemiss.NewLog(cachemiss.Limits{}) }

// Finished is a request that has ended, however it did.
type Finished struct {
	ID     string
	At     time.Time
	Finish FinishReason
	Usage  Usage
	Timing Timing
	// Blocks of the cache on SSD: taken from it for the prompt, and written to it.
	BlockHits, BlockWrites int
	Report                 cachemiss.Report // why what was read was not known
}

// maxRecent bounds what Recent returns.
const maxRecent = 64

// departure is what the loop knows of a request that has just ended.
type departure struct {
	Finished
	match cachemiss.Match
	// its tokens that went through the model, to be known from now on; nil: not to be relied on
	computed []int32
}

// books are the records of ended requests.
type books struct {
	history       *History
	model, format string            // of what this engine computes
	outcome       cachemiss.Outcome // but for the tokens
	wake          chan struct{}     // capacity 1: ended may hold something
	closed        chan struct{}     // closed when all is written

	mu    sync.Mutex
	ended []departure // by the loop

	learning sync.Mutex  // taken before mu
	untold   []departure // known to history, not yet told

	telling sync.Mutex // taken before the others

	recentMu sync.Mutex
	recent   []Finished // oldest first
}

func newBooks(h *History, model, format string, o cachemiss.Outcome) *books {
	if h == nil {
		h = NewHistory()
	}
	return &books{history: h, model: model, format: format, outcome: o,
		wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// depart takes down a request that has ended. The loop calls it before the client is told, so that
// what the client sends next is compared with it.
func (b *books) depart(r *request, reason FinishReason) {
	d := departure{match: r.match,
		Finished: Finished{ID: r.ID, At: time.Now(), Finish: reason, Usage: r.usage,
			Timing:    r.timing(),
			BlockHits: r.blockHits, BlockWrites: r.blockWrites}}
	if reason != FinishError {
		d.computed = r.seq.Tokens[:r.seq.Computed]
	}
	b.mu.Lock()
	b.ended = append(b.ended, d)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// find compares a prompt with all that has been computed when it is called.
func (b *books) find(prompt []int32) cachemiss.Match {
	b.learn()
	return b.history.Find(prompt, b.model, b.format)
}

// learn makes what ended known to the history.
func (b *books) learn() {
	b.learning.Lock()
	defer b.learning.Unlock()
	b.mu.Lock()
	ended := b.ended
	b.ended = nil
	b.mu.Unlock()
	for _, d := range ended {
		b.history.Add(cachemiss.Sequence{Tokens: d.computed, Model: b.model, Format: b.format,
			At: d.At})
	}
	b.untold = append(b.untold, ended...)
}

// tell explains and logs what has been learned since it was last called.
func (b *books) tell() {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.learn()
	b.learning.Lock()
	untold := b.untold
	b.untold = nil
	b.learning.Unlock()
	for _, d := range untold {
		b.explain(&d)
		d.log()
		b.recentMu.Lock()
		b.recent = append(b.recent, d.Finished)
		b.recent = slices.Delete(b.recent, 0, max(0, len(b.recent)-maxRecent))
		b.recentMu.Unlock()
	}
}

// explain fills in the report. Its texts come from clients; a fault in reading them costs the
// report alone.
func (b *books) explain(d *departure) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("explaining a request panicked", "id", d.ID, "panic", fmt.Sprint(r), "stack",
				string(debug.Stack()))
			d.Report = cachemiss.Report{Break: d.match.CommonTokens,
				CommonTokens: d.match.CommonTokens,
				ReadTokens:   d.Usage.PromptTokens - d.Usage.CachedTokens}
		}
	}()
	o := b.outcome
	o.CachedTokens = d.Usage.CachedTokens
	d.Report = d.match.Explain(o)
}

// keep writes the records until the engine has ended.
func (b *books) keep(ended <-chan struct{}) {
	defer close(b.closed)
	for {
		select {
		case <-b.wake:
			b.tell()
		case <-ended:
			b.tell()
			return
		}
	}
}

// log writes the PERF line. prompt_tok counts the whole prompt and pref_tok what was computed of
// it, prompt_tps is the former over the time prefill (both times in seconds), block_hit and
// block_write are blocks of the cache on SSD, and chain_break is the position from which the prompt
// was not as known, -1 if nothing like it was.
func (f *Finished) log() {
	promptTPS := 0.0
	if f.Timing.Prefill > 0 {
		promptTPS = float64(f.Usage.PromptTokens) / f.Timing.Prefill.Seconds()
	}
	number := func(name string,
		x float64) slog.Attr {
		return slog.Float64(name, math.Round(x*1000)/1000)
	}
	// with the colon, a line of text reads PERF: prompt_tps=...
	slog.LogAttrs(context.Background(), slog.LevelInfo, "PERF:",
		number("prompt_tps", promptTPS),
		slog.Int("prompt_tok", f.Usage.PromptTokens),
		slog.Int("pref_tok", f.Usage.PromptDoneTokens-f.Usage.CachedTokens),
		number("prefill", f.Timing.Prefill.Seconds()),
		number("ttft", f.Timing.FirstToken.Seconds()),
		number("decode_tps", f.Timing.DecodeTokensPerSecond()),
		slog.Int("block_hit", f.BlockHits),
		slog.Int("block_write", f.BlockWrites),
		slog.Int("chain_break", f.Report.Break),
		slog.String("cause", string(f.Report.Cause)),
		slog.String("id", f.ID))
}

// Recent is the last requests that have ended, the newest first, at most 64. A request whose Done
// has been read is among them.
func (e *Engine) Recent() []Finished {
	e.books.tell()
	e.books.recentMu.Lock()
	defer e.books.recentMu.Unlock()
	list := slices.Clone(e.books.recent)
	slices.Reverse(list)
	return list
}
