package engine

// What can be asked of a running engine. The loop publishes a copy before and after every pass;
// readers take it under a lock of its own and never wait for a pass.

import (
	"time"

	"headroom/engine/prefix"
)

// speedometer counts tokens over the last two seconds in buckets, so that a reading needs no lock
// and no history.
type speedometer struct {
	buckets [16]struct {
		tick            int64
		prefill, decode int
	}
}

const bucketTime = 125 * time.Millisecond

func (s *speedometer) add(now time.Time, prefill, decode int) {
	tick := now.UnixNano() / int64(bucketTime)
	b := &s.buckets[tick%int64(len(s.buckets))]
	if b.tick != tick {
		b.tick, b.prefill, b.decode = tick, 0, 0
	}
	b.prefill += prefill
	b.decode += decode
}

// perSecond is the speed over the window that ends now, counted from the first token in it.
func (s *speedometer) perSecond(now time.Time) (prefill, decode float64) {
	tick := now.UnixNano() / int64(bucketTime)
	oldest := tick
	var p, d int
	for _, b := range s.buckets {
		if b.tick > tick-int64(len(s.buckets)) && b.tick <= tick && b.prefill+b.decode > 0 {
			p, d = p+b.prefill, d+b.decode
			oldest = min(oldest, b.tick)
		}
	}
	window := (time.Duration(tick-oldest) * bucketTime).Seconds() +
		time.Duration(now.UnixNano()%int64(bucketTime)).Seconds()
	if p+d == 0 || window <= 0 {
		return 0, 0
	}
	return float64(p) / window, float64(d) / window
}

// publish makes the engine's state visible to Stats, and then tells the clients of ended requests:
// who has read Done finds Stats without the request. Called by the engine's goroutine before and
// after every pass.
func (e *Engine) publish() {
	e.publishStats()
	for i, d := range e.endings {
		d.stream.put(d.event)
		e.endings[i] = ending{}
	}
	e.endings = e.endings[:0]
}

func (e *Engine) publishStats() {
	e.statsMu.Lock()
	defer e.statsMu.Unlock()
	s := &e.stats
	var used prefix.Amount
	s.Running, s.Waiting, used, _ = e.sched.Counts()
	s.KVUsedBytes = used.Bytes(e.pageSizes)
	s.Preemptions = int64(e.sched.Preemptions)
	s.KVUntouchedBytes = s.KVBytes - e.sched.PeakPages().Bytes(e.pageSizes)
	s.PromptTokens, s.GeneratedTokens, s.FinishedRequests = e.totals.PromptTokens,
		e.totals.GeneratedTokens, e.totals.FinishedRequests
	s.CachedTokens = e.totals.CachedTokens
	e.published = e.speed
	s.Requests = s.Requests[:0]
	for _, r := range e.requests {
		phase := "waiting"
		switch {
		case r.usage.CompletionTokens > 0:
			phase = "decode"
		case r.usage.PromptDoneTokens > 0:
			phase = "prefill"
		}
		s.Requests = append(s.Requests,
			RequestStats{ID: r.ID, Phase: phase, Usage: r.usage, MaxTokens: r.MaxTokens,
				TokensPerSecond: r.timing().DecodeTokensPerSecond(),
				StartedAtUnixMs: r.submitted.UnixMilli()})
	}
}

// Stats is what the engine is doing now.
func (e *Engine) Stats() Stats {
	e.statsMu.Lock()
	defer e.statsMu.Unlock()
	s := e.stats
	s.Requests = append([]RequestStats(nil), s.Requests...)
	s.PrefillTokensPerSecond, s.DecodeTokensPerSecond = e.published.perSecond(time.Now())
	return s
}
