package loop

// The figures that a running engine reports. The loop publishes a snapshot before and after every
// step. Readers copy it under a lock that no step holds, so they never wait for a step.

import (
	"sync"
	"time"

	"headroom/engine/draft"
	"headroom/engine/prefix"
)

// Stats is a snapshot of a running engine.
type Stats struct {
	Running, Waiting int // requests
	// Of these, those in the background.
	BackgroundRunning, BackgroundWaiting int
	Requests                             []RequestStats
	// Totals since the engine opened.
	// PromptTokens were computed, CachedTokens reused. Of these, StoredTokens were read from disk.
	PromptTokens, CachedTokens, StoredTokens, GeneratedTokens, FinishedRequests int64
	// RecomputedTokens of the PromptTokens had been computed before; see cachemiss.Report. A
	// request counts once it has ended and its report is made.
	RecomputedTokens int64
	// Of the DraftTokens that were proposed, AcceptedTokens were what the model chose.
	DraftTokens, AcceptedTokens int64
	// Of these, DraftModelTokens and DraftModelAccepted are those of a draft model, a drafter of
	// blocks or an assistant, and BlockTokens and BlockAccepted those of the model's own block.
	DraftModelTokens, DraftModelAccepted, BlockTokens, BlockAccepted int64
	// DecodeSeconds is the sum of Timing.Decode of all requests, and SavedSeconds that of
	// Timing.Saved.
	DecodeSeconds, SavedSeconds float64
	// Preemptions counts how often a request gave up its KV pages to others and was computed again.
	Preemptions int64
	// Average speeds over about the last two seconds; 0 when idle.
	PrefillTokensPerSecond, DecodeTokensPerSecond float64
	// Memory that the engine takes. KVBytes are the pages that were ever written, of which
	// KVUsedBytes belong to running requests. StateBytes are the slots that were ever in use. Both
	// grow with use, since memory that was never written is not resident.
	WeightsBytes, KVBytes, KVUsedBytes, StateBytes, ScratchBytes int64
	// ReservedBytes is what the engine is promised beyond KVBytes and StateBytes: the rest of the
	// longest conversation that runs, or of a short one at rest, and of the states of all requests
	// that may run at once.
	ReservedBytes int64
	// ConversationBytes is what one conversation of the whole context would take beyond all of
	// that. It is not promised to anybody.
	ConversationBytes int64
	// GrowthBytes is how much the caches may still grow in all, while there is memory.
	GrowthBytes int64
}

// Speedup returns how many times as fast as without drafts all answers were decoded; see
// Timing.Speedup.
func (s *Stats) Speedup() float64 { return draft.Speedup(s.DecodeSeconds, s.SavedSeconds) }

// RequestStats is the part of Stats about one request in flight.
type RequestStats struct {
	ID              string
	Title           string // first words of the conversation; "" for a private request
	Client, Key     string // see Request
	Phase           string // "waiting", "prefill" or "decode"
	Background      bool   // see Request
	Usage           Usage
	MaxTokens       int     // maximum length of the answer
	LacksBytes      int64   // the memory that it waits for; 0: it waits for none
	TokensPerSecond float64 // decoding speed so far
	StartedAtUnixMs int64
}

// counters holds the totals of Stats and the recent speeds.
type counters struct {
	PromptTokens, CachedTokens, StoredTokens, GeneratedTokens, FinishedRequests int64
	DraftTokens, AcceptedTokens                                                 int64
	DraftModelTokens, DraftModelAccepted, BlockTokens, BlockAccepted            int64
	decode, saved                                                               time.Duration
	speed                                                                       speedometer
}

func (c *counters) addPrompt(now time.Time, tokens int) {
	c.speed.add(now, tokens, 0)
	c.PromptTokens += int64(tokens)
}

// addGenerated counts a generated token. The first token of an answer comes from prefill, so it
// does not count toward the decoding speed.
func (c *counters) addGenerated(now time.Time, first bool) {
	if !first {
		c.speed.add(now, 0, 1)
	}
	c.GeneratedTokens++
}

// speedometer counts the tokens of the last two seconds in buckets of bucketTime. It contains no
// pointers, so a copy of it is a snapshot.
type speedometer struct {
	began   int64 // when the step of the tokens that are added next began, in Unix nanoseconds
	buckets [16]struct {
		tick            int64
		began           int64 // of the first step whose tokens are here
		prefill, decode int
	}
}

const bucketTime = 125 * time.Millisecond

func (s *speedometer) add(now time.Time, prefill, decode int) {
	tick := now.UnixNano() / int64(bucketTime)
	b := &s.buckets[tick%int64(len(s.buckets))]
	if b.tick != tick {
		b.tick, b.began, b.prefill, b.decode = tick, s.began, 0, 0
	}
	b.prefill += prefill
	b.decode += decode
}

// perSecond returns the average speeds since the step began whose tokens are the oldest in the
// buckets. Counted from the buckets, a long step that has just ended would seem infinitely fast.
func (s *speedometer) perSecond(now time.Time) (prefill, decode float64) {
	tick := now.UnixNano() / int64(bucketTime)
	oldest := now.UnixNano()
	var p, d int
	for _, b := range s.buckets {
		if b.tick > tick-int64(len(s.buckets)) && b.tick <= tick && b.prefill+b.decode > 0 {
			p, d = p+b.prefill, d+b.decode
			oldest = min(oldest, b.began)
		}
	}
	window := time.Duration(now.UnixNano() - oldest).Seconds()
	if p+d == 0 || window <= 0 {
		return 0, 0
	}
	return float64(p) / window, float64(d) / window
}

// published is the snapshot that Stats copies.
type published struct {
	mu    sync.Mutex
	stats Stats
	speed speedometer
}

// running returns the number of running requests, in the background or not.
func (p *published) running(background bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if background {
		return p.stats.BackgroundRunning
	}
	return p.stats.Running - p.stats.BackgroundRunning
}

// publish updates the snapshot, then sends the Done events of ended requests. In this order, a
// client that has read Done no longer finds its request in Stats.
func (l *Loop) publish() {
	l.publishStats()
	for i, e := range l.endings {
		e.stream.put(e.event)
		l.endings[i] = ending{}
	}
	l.endings = l.endings[:0]
}

// publishMemory sets the sizes of the caches: what was written, and what is promised beyond that.
func (l *Loop) publishMemory(s *Stats) {
	need := &l.config.Need
	kv := l.pageBytes(l.sched.PeakPages())
	states := int64(l.sched.TouchedSlots())*l.config.SlotBytes + need.OtherBytes
	s.KVBytes, s.StateBytes = kv, states
	promised := l.pageBytes(l.sched.Promised())
	s.ReservedBytes = max(0, promised-kv) + int64(l.sched.PromisedSlots())*l.config.SlotBytes
	s.ConversationBytes = max(0, need.KVBytes-max(promised, kv))
	s.GrowthBytes = max(0, need.KVBytes+need.StateBytes+need.GrowthBytes-kv-states-
		s.ReservedBytes)
}

func (l *Loop) publishStats() {
	l.published.mu.Lock()
	defer l.published.mu.Unlock()
	s := &l.published.stats
	var used prefix.Amount
	s.Running, s.Waiting, used, _ = l.sched.Counts()
	s.KVUsedBytes = l.pageBytes(used)
	l.publishMemory(s)
	s.Preemptions = int64(l.sched.Preemptions)
	c := &l.counters
	s.PromptTokens, s.CachedTokens, s.StoredTokens = c.PromptTokens, c.CachedTokens, c.StoredTokens
	s.GeneratedTokens, s.FinishedRequests = c.GeneratedTokens, c.FinishedRequests
	s.DraftTokens, s.AcceptedTokens = c.DraftTokens, c.AcceptedTokens
	s.DraftModelTokens, s.DraftModelAccepted = c.DraftModelTokens, c.DraftModelAccepted
	s.BlockTokens, s.BlockAccepted = c.BlockTokens, c.BlockAccepted
	s.DecodeSeconds, s.SavedSeconds = c.decode.Seconds(), c.saved.Seconds()
	l.published.speed = c.speed
	s.Requests = s.Requests[:0]
	s.BackgroundRunning, s.BackgroundWaiting = 0, 0
	for _, r := range l.requests {
		phase := "prefill"
		switch {
		case r.Background && r.seq.Slot < 0:
			s.BackgroundWaiting++
		case r.Background:
			s.BackgroundRunning++
		}
		switch {
		case r.seq.Slot < 0: // not admitted, or preempted
			phase = "waiting"
		case r.usage.CompletionTokens > 0:
			phase = "decode"
		}
		s.Requests = append(s.Requests,
			RequestStats{ID: r.ID, Title: r.title, Client: r.Client, Key: r.Key, Phase: phase,
				Background: r.Background, Usage: r.usage, MaxTokens: r.answerTokens(),
				LacksBytes:      l.lackingBytes(r),
				TokensPerSecond: r.timing().DecodeTokensPerSecond(),
				StartedAtUnixMs: r.submitted.UnixMilli()})
	}
}

// Stats returns a snapshot. It never waits for a step.
func (l *Loop) Stats() Stats {
	p := &l.published
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Requests = append([]RequestStats(nil), s.Requests...)
	s.RecomputedTokens = l.log.recomputed.Load()
	s.PrefillTokensPerSecond, s.DecodeTokensPerSecond = p.speed.perSecond(time.Now())
	return s
}
