package loop

// At its start, the loop reads the conversations that are most likely to continue from disk, so
// that they are in memory before the first request. One conversation is read at a time, on another
// goroutine. It uses free memory only. It ends when a request arrives, and a request that shares
// no prefix with the conversation being read ends that read too.
//
// A chat template may drop the reasoning of the last answer, so a conversation continues either
// after its last token or after its last message. For a recurrent model both states are read.

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"headroom/engine/blockstore"
	"headroom/engine/prefix"
	"headroom/engine/sched"
)

const (
	// preloadConversations is the maximum number of conversations to read.
	preloadConversations = 32
	// preloadStates is the number of positions at which a preloaded conversation can resume, for a
	// recurrent model.
	preloadStates = 2
)

// preload holds the state of the loop that concerns preloading. Only the goroutine of the loop uses
// it.
type preload struct {
	ended   bool // no further conversation is read
	reading *sched.Promotion
	cancel  context.CancelFunc // ends the read of reading
	done    []preloaded
}

// preloaded is the longest preloaded prefix of a conversation.
type preloaded struct {
	tokens  []int32
	counted int // the tokens of it that requests have used, as far as the store has counted them
}

// stop ends preloading. A read in progress is discarded.
func (p *preload) stop() {
	p.ended = true
	if p.reading != nil {
		p.cancel()
	}
}

// yield ends preloading, because r has arrived. If r shares the prefix that is being read, it waits
// for that read, as it would have to read the same files.
func (p *preload) yield(r *request) {
	p.ended = true
	if p.reading != nil && (r.adapter != nil ||
		prefix.Common(r.Prompt, p.reading.Tokens) < blockstore.BlockTokens) {
		p.cancel()
	}
}

// runPreload reads conversations until bytes of memory are used or a request arrives.
func (l *Loop) runPreload(bytes int64) {
	begin, most := time.Now(), preloadConversations
	if limit := l.config.Sched.HotConversations; limit > 0 {
		most = min(most, limit)
	}
	if limit := l.config.Sched.HotBytes; limit > 0 {
		bytes = min(bytes, limit)
	}
	list, err := l.stored.view.Recent(most)
	if err != nil {
		slog.Warn("the stored conversations could not be listed, so none is preloaded", "err", err)
		return
	}
	conversations, tokens := 0, 0
	for _, c := range list {
		limit := len(c)
		for range preloadStates {
			n, used, goOn := l.preloadPrefix(c[:limit], bytes)
			if !goOn {
				return
			}
			bytes -= used
			if limit == len(c) && n > 0 {
				conversations, tokens = conversations+1, tokens+n
			}
			if limit = n - 1; limit <= 0 || !l.config.Sched.Recurrent {
				break
			}
		}
	}
	l.runOnLoop(l.orderPreloaded)
	if conversations > 0 {
		slog.Info("conversations were preloaded", "conversations", conversations, "tokens", tokens,
			"took", time.Since(begin).Round(time.Millisecond))
	}
}

// preloadPrefix reads the longest stored prefix of tokens, if it needs at most maxBytes of pages.
// It returns its length and the size of its pages, 0 if nothing was read. goOn is false if
// preloading has ended.
func (l *Loop) preloadPrefix(tokens []int32, maxBytes int64) (n int, bytes int64, goOn bool) {
	found := l.stored.view.Find(tokens, len(tokens), 0, l.config.Sched.Recurrent)
	if found.Tokens < blockstore.BlockTokens {
		return 0, 0, true
	}
	type start struct {
		p     *sched.Promotion
		bytes int64
		ctx   context.Context
		ended bool
	}
	started := make(chan start, 1)
	l.runOnLoop(func() {
		s := start{ended: l.stored.preload.ended}
		if !s.ended {
			s.p, s.bytes = l.sched.Preload(tokens[:found.Tokens], maxBytes)
		}
		if s.p != nil {
			l.waitForDevice()
			s.ctx, l.stored.preload.cancel = context.WithCancel(l.stored.ctx)
			l.stored.preload.reading = s.p
			l.stored.pending++
		}
		started <- s
	})
	var s start
	select {
	case s = <-started:
	case <-l.inbox.ended:
		return 0, 0, false
	}
	if s.p == nil {
		return 0, 0, !s.ended
	}
	return l.readPreload(s.ctx, s.p, s.bytes)
}

// readPreload reads the prefix of p and adds it to the prefix tree.
func (l *Loop) readPreload(ctx context.Context, p *sched.Promotion, bytes int64) (n int,
	used int64, goOn bool) {
	found, err := l.find(l.stored.view, p)
	if err == nil {
		kv, state := l.targets(p)
		err = l.stored.view.Read(ctx, found, kv, state)
	}
	ended := make(chan bool, 1)
	l.runOnLoop(func() {
		pre := &l.stored.preload
		l.stored.pending--
		ok := err == nil && ctx.Err() == nil
		l.sched.Promoted(p, ok)
		if ok {
			pre.add(p.Tokens)
			n, used = len(p.Tokens), bytes
		}
		pre.cancel()
		pre.reading = nil
		ended <- pre.ended
	})
	goOn = !<-ended // the loop makes the call before it ends, because of pending
	return n, used, goOn
}

// orderPreloaded marks the prefixes as used, the least likely to continue first, so that it is
// evicted first.
func (l *Loop) orderPreloaded() {
	for _, p := range slices.Backward(l.stored.preload.done) {
		l.sched.Use(p.tokens)
	}
}

// add remembers a prefix, unless it is the beginning of one that is known.
func (p *preload) add(tokens []int32) {
	if !slices.ContainsFunc(p.done, func(d preloaded) bool {
		return prefix.Common(d.tokens, tokens) == len(tokens)
	}) {
		p.done = append(p.done, preloaded{tokens: tokens})
	}
}

// uncounted returns the position from which the tokens of a promotion that begins at From come from
// disk and have not been counted: before From if those are preloaded, else From.
func (p *preload) uncounted(promotion *sched.Promotion) int {
	from := promotion.From
	for _, d := range p.done {
		if prefix.Common(d.tokens, promotion.Tokens) >= promotion.From {
			from = min(from, d.counted)
		}
	}
	return from
}

// countPreloaded counts the preloaded prefix that r resumes after as read from the store, since
// without preloading it would be read now. A private request leaves no count on disk.
func (l *Loop) countPreloaded(r *request) {
	if r.Private || r.adapter != nil { // what is preloaded is of the model alone
		return
	}
	used := 0
	for i := range l.stored.preload.done {
		d := &l.stored.preload.done[i]
		if n := min(r.seq.Cached, prefix.Common(d.tokens, r.Prompt)); n > d.counted {
			d.counted, used = n, max(used, n)
		}
	}
	// If r has read from the store itself, blocks or only a state, that counts as its hit.
	if used == 0 || r.storedTo > 0 {
		return
	}
	l.stored.pending++
	go func() {
		found := l.stored.view.Find(r.Prompt[:used], used, 0, l.config.Sched.Recurrent)
		l.stored.view.Used(found)
		l.runOnLoop(func() { l.stored.pending-- })
	}()
}
