package loop

// For each ended request there is a PERF line in the log and a Finished for the UI. Both tell the
// cause of a cache miss.
//
// The work is divided so that neither a long prompt nor a slow log delays a running stream. The
// loop only appends an ended request to a list (record). Submit, on its caller's goroutine, adds
// the requests of that list to the history (index) and compares the new prompt with the history.
// The goroutine of requestLog, or a caller of Recent, finds the causes and writes the lines
// (flush).

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headroom/engine/cachemiss"
	"headroom/engine/draft"
)

// History holds the token ids of recent requests. Engines that run one after the other share a
// History, so that a cache miss after a change of model or cache format can be explained.
type History = cachemiss.Log

// NewHistory returns an empty History.
func NewHistory() *History { return cachemiss.NewLog(cachemiss.Limits{}) }

// Finished describes a request that has ended, whether answered, cancelled or failed.
type Finished struct {
	ID     string
	Title  string // first words of the conversation; "" for a private request
	Client string // see Request
	Key    string
	At     time.Time
	Finish FinishReason
	Usage  Usage
	Timing Timing
	// NoDrafts is why there were no drafts.
	NoDrafts draft.Why
	Private  bool // Report then tells nothing about the prompt
	// Blocks of the cache on disk: read for the prompt, and passed to the writer.
	BlockHits, BlockWrites int
	Report                 cachemiss.Report // why the prompt was not cached
}

// maxRecent is the maximum number of requests that Recent returns.
const maxRecent = 64

// record holds the result of a request that has just ended.
type record struct {
	Finished
	miss     cachemiss.Match
	scored   bool    // Request.ScorePrompt
	model    string  // that of requestLog, with the adapter
	computed []int32 // the tokens to add to the history; nil: none are cached
}

// requestLog keeps the records of ended requests.
type requestLog struct {
	history       *History
	model, format string            // recorded with the tokens that this engine computes
	outcome       cachemiss.Outcome // CachedTokens is set for each request
	wake          chan struct{}     // capacity 1: holds a value if ended may not be empty
	closed        chan struct{}     // closed when all requests have been logged

	// Locks are taken in this order: flushing, indexing, mu.
	flushing  sync.Mutex
	indexing  sync.Mutex
	unflushed []record // added to the history, not yet explained
	mu        sync.Mutex
	ended     []record // not yet added to the history

	recomputed atomic.Int64 // tokens of all requests; see Stats

	recentMu sync.Mutex
	recent   []Finished // oldest first
}

func newRequestLog(h *History, model, format string, o cachemiss.Outcome) *requestLog {
	if h == nil {
		h = NewHistory()
	}
	return &requestLog{history: h, model: model, format: format, outcome: o,
		wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// record adds a request that has ended. The loop calls it before it sends Done, so that the
// client's next prompt is compared with this one.
func (g *requestLog) record(r *request, reason FinishReason) {
	n := record{miss: r.miss, scored: r.ScorePrompt, model: g.model + r.adapter.key(),
		Finished: Finished{ID: r.ID, Title: r.title, Client: r.Client, Key: r.Key,
			At: time.Now(), Finish: reason, Usage: r.usage, Timing: r.timing(),
			NoDrafts: r.whyNoDrafts(), Private: r.Private, BlockHits: r.blockHits,
			BlockWrites: r.blockWrites}}
	if reason != FinishError && !r.Private && !r.NoCache {
		n.computed = r.seq.Tokens[:r.seq.Exact()]
	}
	g.mu.Lock()
	g.ended = append(g.ended, n)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// compare compares a prompt with the tokens of all requests that ended before the call. adapter is
// the key of the request's adapter.
func (g *requestLog) compare(prompt []int32, adapter string) cachemiss.Match {
	g.index()
	return g.history.Find(prompt, g.model+adapter, g.format)
}

// index adds the requests that have ended to the history.
func (g *requestLog) index() {
	g.indexing.Lock()
	defer g.indexing.Unlock()
	g.mu.Lock()
	ended := g.ended
	g.ended = nil
	g.mu.Unlock()
	for _, n := range ended {
		g.history.Add(cachemiss.Sequence{Tokens: n.computed, Model: n.model, Format: g.format,
			At: n.At})
	}
	g.unflushed = append(g.unflushed, ended...)
}

// flush explains and logs the requests that have ended.
func (g *requestLog) flush() {
	g.flushing.Lock()
	defer g.flushing.Unlock()
	g.index()
	g.indexing.Lock()
	records := g.unflushed
	g.unflushed = nil
	g.indexing.Unlock()
	for _, n := range records {
		g.explain(&n)
		n.log()
		computed := max(0, n.Usage.PromptDoneTokens-n.Usage.CachedTokens)
		g.recomputed.Add(int64(min(n.Report.RecomputedTokens, computed)))
		g.recentMu.Lock()
		g.recent = append(g.recent, n.Finished)
		g.recent = slices.Delete(g.recent, 0, max(0, len(g.recent)-maxRecent))
		g.recentMu.Unlock()
	}
}

// explain fills in the report of n. The texts in it come from clients, so a panic must cost no more
// than the report.
func (g *requestLog) explain(n *record) {
	defer func() {
		if r := recover(); r != nil {
			slog.Error("explaining a cache miss panicked", "id", n.ID, "panic", fmt.Sprint(r),
				"stack", string(debug.Stack()))
			n.Report = cachemiss.Report{Break: n.miss.CommonTokens,
				CommonTokens: n.miss.CommonTokens,
				ReadTokens:   n.Usage.PromptTokens - n.Usage.CachedTokens}
		}
	}()
	if n.scored {
		n.Report = cachemiss.Report{Break: -1, Cause: cachemiss.Private,
			ReadTokens: n.Usage.PromptTokens,
			Advice: "The request asked for the log-probability of every token of its prompt, so " +
				"all of them were computed. Such a prompt is neither kept nor compared."}
		return
	}
	if n.Private { // its prompt was not compared, and is not in the history
		n.Report = cachemiss.Report{Break: -1, Cause: cachemiss.Private,
			ReadTokens: n.Usage.PromptTokens - n.Usage.CachedTokens,
			Advice:     "The prompt was private: it is neither kept nor compared with others."}
		return
	}
	o := g.outcome
	o.CachedTokens = n.Usage.CachedTokens
	n.Report = n.miss.Explain(o)
}

// run flushes until the loop has ended.
func (g *requestLog) run(ended <-chan struct{}) {
	defer close(g.closed)
	for {
		select {
		case <-g.wake:
			g.flush()
		case <-ended:
			g.flush()
			return
		}
	}
}

// forget drops a conversation from the history. Without tokens it drops all conversations. The loop
// calls it.
func (g *requestLog) forget(tokens []int32) {
	g.index() // otherwise a later call would add the conversation again
	g.history.Forget(g.model, tokens)
}

// log writes the PERF line. Times are in seconds.
//
//	prompt_tps                prompt_tokens divided by prefill
//	prompt_tokens             tokens of the prompt
//	computed_tokens           prompt tokens that were computed, not cached
//	prefill, ttft             time from the first pass, or from Submit, to the first token
//	decode_tps                decoding speed
//	drafts, accepted          tokens that were proposed, and those that were what the model chose
//	model_drafts, model_accepted
//	                          of these, those of a draft model, a DFlash drafter or an
//	                          assistant
//	block_drafts, block_accepted
//	                          those of the model's own block
//	prediction_drafts, prediction_accepted
//	                          those that were looked up in the request's prediction
//	gained                    how many times as fast as without drafts the answer was decoded, by
//	                          estimate; 0: there was only one token
//	no_drafts, no_drafts_why  the cause why there were no drafts, and its sentence; "": there were
//	block_hit, block_write    blocks read from and written to the cache on disk
//	chain_break               1: tokens that were computed before were computed again; else 0
//	first_difference          position at which the prompt diverges from the history; -1: no
//	                          sequence in the history begins with the same token
//	cause                     why the rest of the prompt was not cached
func (f *Finished) log() {
	promptTPS := 0.0
	if f.Timing.Prefill > 0 {
		promptTPS = float64(f.Usage.PromptTokens) / f.Timing.Prefill.Seconds()
	}
	number := func(name string, x float64) slog.Attr {
		return slog.Float64(name, math.Round(x*1000)/1000)
	}
	// With the colon, the text of the line is "PERF: prompt_tps=...".
	slog.LogAttrs(context.Background(), slog.LevelInfo, "PERF:",
		number("prompt_tps", promptTPS),
		slog.Int("prompt_tokens", f.Usage.PromptTokens),
		slog.Int("computed_tokens", f.Usage.PromptDoneTokens-f.Usage.CachedTokens),
		number("prefill", f.Timing.Prefill.Seconds()),
		number("ttft", f.Timing.FirstToken.Seconds()),
		number("decode_tps", f.Timing.DecodeTokensPerSecond()),
		slog.Int("drafts", f.Usage.DraftTokens),
		slog.Int("accepted", f.Usage.AcceptedTokens),
		slog.Int("model_drafts", f.Usage.DraftModelTokens),
		slog.Int("model_accepted", f.Usage.DraftModelAccepted),
		slog.Int("block_drafts", f.Usage.BlockTokens),
		slog.Int("block_accepted", f.Usage.BlockAccepted),
		slog.Int("prediction_drafts", f.Usage.PredictionTokens),
		slog.Int("prediction_accepted", f.Usage.PredictionAccepted),
		number("gained", f.Timing.Speedup()),
		slog.String("no_drafts", f.NoDrafts.Cause.String()),
		slog.String("no_drafts_why", f.NoDrafts.Sentence()),
		slog.Int("block_hit", f.BlockHits),
		slog.Int("block_write", f.BlockWrites),
		slog.Int("chain_break", min(f.Report.RecomputedTokens, 1)),
		slog.Int("first_difference", f.Report.Break),
		slog.String("cause", string(f.Report.Cause)),
		slog.String("id", f.ID))
}

// Recent returns the last 64 requests that have ended, newest first. It includes every request
// whose Done event has been read.
func (l *Loop) Recent() []Finished {
	l.log.flush()
	l.log.recentMu.Lock()
	defer l.log.recentMu.Unlock()
	list := slices.Clone(l.log.recent)
	slices.Reverse(list)
	return list
}
