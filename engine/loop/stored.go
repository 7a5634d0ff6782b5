package loop

// This file looks up, reads and writes the cached blocks on disk (engine/blockstore). The loop only
// does the bookkeeping. Other goroutines access the files and report back with runOnLoop. While
// they work, the scheduler holds the memory that they read and write.
//
// Writing. When a request ends, the loop passes its full blocks to the writer of the store, with
// recurrent states that are at least StateEveryTokens apart. The writer skips what is already
// stored. The tail after the last full block, and the states at the end, become useless once the
// conversation continues, and an agent continues within seconds. So they are written only when the
// conversation has been quiet for quietTime, when memory runs short, or when the loop closes.
//
// Reading. If the prompt of a new request is not cached in memory, the loop looks it up in the
// store. At the request's turn, the scheduler allocates pages (sched.Promotion) and the files are
// read into them. The request then resumes after that prefix, as after any cached prefix.

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"headroom/engine/blockstore"
	"headroom/engine/cache"
	"headroom/engine/prefix"
	"headroom/engine/sched"
)

const (
	// A conversation is quiet if its last request ended at least quietTime ago.
	quietTime = 3 * time.Second
	// shortageTimeout is how long requests wait for memory that is being written to disk. After
	// that the disk is considered stuck, and the write is stopped.
	shortageTimeout = 2 * time.Second
	// maxLookups bounds the lookups of a request. If a file turns out to be damaged, the store
	// removes it and the loop looks up the request again.
	maxLookups = 4
)

// storedBlocks holds the state of the loop that concerns the block store.
type storedBlocks struct {
	view       *blockstore.View           // of the model without an adapter; nil: there is no store
	views      map[int32]*blockstore.View // of its adapters, by space; only the loop's goroutine
	ctx        context.Context            // ends reads when the loop closes
	cancel     context.CancelFunc
	stateEvery int // minimum number of tokens between two stored states

	pending int // lookups, reads and writes in progress
	// shortSince is when requests began to wait for pages, in Unix nanoseconds; 0: none is waiting.
	// The writer reads it.
	shortSince atomic.Int64
	// changed is true once the files of the weights have changed. Only the writer uses it.
	changed bool

	preload preload // prefixes read before a request needs them

	unsaved   []*conversation       // ended, with an end that is not stored; oldest first
	saving    map[*conversation]int // number of writes in progress
	afterSave []func()              // called once, after the next write has ended
	timer     *time.Timer           // wakes the loop when unsaved[0] is quiet; nil until needed
	// secondsPerToken is the prefill time per token of the last request that computed at least a
	// block.
	secondsPerToken float64
}

// conversation is a computed token sequence that a later prompt may continue.
type conversation struct {
	tokens []int32
	space  int32
	view   *blockstore.View
	title  string
	reused bool // at least part of its prompt was cached
	ended  time.Time
	// forgotten stops the writes of this conversation. The loop sets it and the writer reads it.
	forgotten atomic.Bool
}

func (b *storedBlocks) init(c *Config) {
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.saving, b.views = map[*conversation]int{}, map[int32]*blockstore.View{}
	b.stateEvery = max(keepEvery, c.StateEveryTokens)
	if c.Store != nil && !c.Sched.NoPrefixes {
		b.view = c.Store.Model(c.StoreModel)
	}
}

// viewOf returns the view of the store for the tokens that the model computes with an adapter; nil:
// none. There is a store.
func (l *Loop) viewOf(a *loadedAdapter) *blockstore.View {
	if a == nil {
		return l.stored.view
	}
	view := l.stored.views[a.spaceID]
	if view == nil {
		key := l.config.StoreModel
		key.Format += ", adapter" + a.key()
		view = l.config.Store.Model(key)
		l.stored.views[a.spaceID] = view
	}
	return view
}

// lookUp looks up the prompt of a new request in the store, unless nearly all of it is cached in
// memory.
func (l *Loop) lookUp(r *request) {
	known, resumable := l.sched.Known(&r.seq)
	limit := r.seq.Resumable()
	fewMissing := limit-resumable < l.sched.FetchTokens()
	// The index counts reads, so a private prompt is not even looked up.
	if l.stored.view == nil || r.Private || fewMissing || r.lookups == maxLookups {
		return
	}
	r.lookups++
	r.seq.StorePending = true
	l.stored.pending++
	view := l.viewOf(r.adapter)
	go func() {
		found := view.Find(r.Prompt, limit, known, l.config.Sched.Recurrent)
		l.runOnLoop(func() {
			l.stored.pending--
			r.seq.Stored, r.seq.StorePending = found.Tokens, false
		})
	}()
}

// fetch reads a prefix from disk into the pages of p.
func (l *Loop) fetch(p *sched.Promotion) {
	r := p.Seq.Owner.(*request)
	l.stored.pending++
	// Until its work is finished, the device may be using the pages. If the device has failed, it
	// will not read them any more.
	l.waitForDevice()
	countFrom := p.From
	if r.adapter == nil {
		countFrom = l.stored.preload.uncounted(p)
	}
	view := l.viewOf(r.adapter)
	go func() {
		blocks, err := l.readBlocks(view, p, countFrom)
		l.runOnLoop(func() {
			l.stored.pending--
			_, r.storedFrom = l.sched.Known(p.Seq)
			l.sched.Promoted(p, err == nil)
			if err == nil {
				r.blockHits, r.storedTo = blocks, len(p.Tokens)
			}
			if err != nil && slices.Contains(l.requests, r) {
				slog.Info("a stored prefix could not be read", "request", r.ID, "tokens",
					len(p.Tokens), "err", err)
				l.lookUp(r) // damaged files have been removed; a shorter prefix may be found
			}
		})
	}()
}

// readBlocks reads a promotion's pages and state from files and returns the number of blocks. The
// blocks from position countFrom count as used. It does not run on the goroutine of the loop.
func (l *Loop) readBlocks(view *blockstore.View, p *sched.Promotion, countFrom int) (blocks int,
	err error) {
	found, err := l.find(view, p)
	if err != nil {
		return 0, err
	}
	kv, state := l.targets(p)
	if err := view.Read(l.stored.ctx, found, kv, state); err != nil {
		return len(found.Blocks), err
	}
	used := found
	if countFrom < p.From {
		used = view.Find(p.Tokens, len(p.Tokens), countFrom, l.config.Sched.Recurrent)
	}
	view.Used(used)
	return len(found.Blocks), nil
}

// find returns the entries of a promotion's prefix.
func (l *Loop) find(view *blockstore.View, p *sched.Promotion) (blockstore.Prefix, error) {
	found := view.Find(p.Tokens, len(p.Tokens), p.From, l.config.Sched.Recurrent)
	if found.Tokens != len(p.Tokens) {
		return found, fmt.Errorf(
			"loop: only %d of %d tokens are still stored, the other blocks have been evicted",
			found.Tokens, len(p.Tokens))
	}
	return found, nil
}

// targets returns the memory of a promotion: that of a block, and that of the state.
func (l *Loop) targets(p *sched.Promotion) (kv func(blockstore.Block) []blockstore.Tensor,
	state func() []blockstore.Tensor) {
	kv = func(b blockstore.Block) []blockstore.Tensor {
		pages := make([]int32, pagesFor(b.To-b.From))
		for i := range pages {
			pages[i] = -1 // already in memory
			if at := b.From + i*cache.PageTokens; at >= p.From {
				pages[i] = p.Pages[at/cache.PageTokens]
			}
		}
		return tensors(l.regionsAt(b.From), pages)
	}
	state = func() []blockstore.Tensor {
		return tensors(l.runner.SlotRegions(), []int32{p.Slot})
	}
	return kv, state
}

// tensors returns the memory of pages or slots as tensors of the store. There is one tensor per
// region, with one piece per index. An index of -1 gives a nil piece.
func tensors(regions []cache.Region, indexes []int32) []blockstore.Tensor {
	list := make([]blockstore.Tensor, len(regions))
	for i := range regions {
		list[i] = blockstore.Tensor{Name: regions[i].Name, Pieces: make([][]byte, len(indexes))}
		for j, n := range indexes {
			if n >= 0 {
				list[i].Pieces[j] = regions[i].Piece(n)
			}
		}
	}
	return list
}

// usedTensors returns tensors to be written: what the tokens have left in these pages or in a slot.
// The rest of the memory may hold tokens of other sequences, perhaps private ones, so it is zero.
func usedTensors(regions []cache.Region, indexes []int32, tokens int) []blockstore.Tensor {
	list := tensors(regions, indexes)
	last := len(indexes) - 1
	for i := range regions {
		list[i].Pieces[last] = regions[i].Used(indexes[last], tokens-last*cache.PageTokens)
	}
	return list
}

// regionsAt returns the regions of the pages of the block at position from. All pages of a block
// are of one kind, because StartTokens is a multiple of the block size.
func (l *Loop) regionsAt(from int) []cache.Region {
	return l.runner.PageRegions(from < l.config.Sched.StartTokens)
}

func pagesFor(tokens int) int { return (tokens + cache.PageTokens - 1) / cache.PageTokens }

// saveBlocks writes the full blocks of the tokens that an ended request has computed. Of a private
// request nothing is written, now or later: only what becomes a conversation here ever reaches the
// store. A later request that is not private may resume its blocks, and then stores its own text.
// Of a request that is not cached nothing is written either.
func (l *Loop) saveBlocks(r *request, computed []int32, now time.Time) {
	if l.stored.view == nil || r.Private || r.NoCache || len(computed) < blockstore.BlockTokens {
		return
	}
	// A request cancelled during prefill has no prefill time, so the previous value stays.
	n, took := r.usage.PromptTokens-r.usage.CachedTokens, r.timing().Prefill
	if n >= blockstore.BlockTokens && took > 0 {
		l.stored.secondsPerToken = took.Seconds() / float64(n)
	}
	c := &conversation{tokens: slices.Clone(computed), title: r.title, space: r.adapter.space(),
		view: l.viewOf(r.adapter), reused: r.usage.CachedTokens > 0, ended: now}
	l.stored.unsaved = slices.DeleteFunc(l.stored.unsaved, func(old *conversation) bool {
		cContinuesOld := old.space == c.space && len(old.tokens) <= len(c.tokens) &&
			slices.Equal(old.tokens, c.tokens[:len(old.tokens)])
		return cContinuesOld
	})
	l.stored.unsaved = append(l.stored.unsaved, c)
	r.blockWrites = len(computed)/blockstore.BlockTokens -
		r.usage.CachedTokens/blockstore.BlockTokens
	l.save(c, false)
}

// noteShortage records whether requests are waiting for pages.
func (b *storedBlocks) noteShortage(short bool, now time.Time) {
	if !short {
		b.shortSince.Store(0)
	} else if b.shortSince.Load() == 0 {
		b.shortSince.Store(now.UnixNano())
	}
}

// saveEnds writes the ends of quiet conversations. If the loop is closing, it writes the ends of
// all conversations. If the submitted requests need more pages than are free, it writes the ends of
// all conversations that these requests do not continue, because they may be evicted.
func (l *Loop) saveEnds(now time.Time, submitted []*request, closing bool) {
	if len(l.stored.unsaved) == 0 {
		return
	}
	need := prefix.Amount{Rest: 1} // for running requests
	for _, r := range submitted {
		need = need.Plus(l.sched.PagesFor(len(r.Prompt)))
	}
	crowded := !l.sched.FreePages().Covers(need)
	l.stored.unsaved = slices.DeleteFunc(l.stored.unsaved, func(c *conversation) bool {
		due := closing || now.Sub(c.ended) >= quietTime ||
			crowded && !slices.ContainsFunc(submitted, c.continuedBy)
		if due {
			l.save(c, true)
		}
		return due
	})
	if len(l.stored.unsaved) > 0 {
		wait := quietTime - now.Sub(l.stored.unsaved[0].ended)
		if l.stored.timer == nil {
			l.stored.timer = time.AfterFunc(wait, func() { l.runOnLoop(func() {}) })
		} else {
			l.stored.timer.Reset(wait)
		}
	}
}

// continuedBy reports whether r begins with the first three quarters of c. Then r probably
// continues the conversation, and the end of c is useless.
func (c *conversation) continuedBy(r *request) bool {
	n := len(c.tokens) * 3 / 4
	return r.adapter.space() == c.space && len(r.Prompt) >= n &&
		slices.Equal(r.Prompt[:n], c.tokens[:n])
}

// save passes the cached part of a conversation to the writer of the store. If tail is false, it
// saves full blocks only.
func (l *Loop) save(c *conversation, tail bool) {
	if !l.waitForDevice() {
		return
	}
	held := l.sched.Hold(c.space, c.tokens)
	checked := false
	s := blockstore.Sequence{
		Tokens: c.tokens[:held.Tokens], Tail: tail, Reused: c.reused, Title: c.title,
		SecondsPerToken: l.stored.secondsPerToken,
		Stop: func() bool {
			if !checked { // what is to be saved was computed before that
				checked = true
				l.checkWeights()
			}
			return l.stored.changed || c.forgotten.Load() || l.stopWriting()
		},
		KV: func(from, to int) []blockstore.Tensor {
			pages := held.Pages[from/cache.PageTokens : pagesFor(to)]
			return usedTensors(l.regionsAt(from), pages, to-from)
		},
		States: l.statesToStore(c, held, tail),
		Done: func(blockstore.Saved) {
			l.runOnLoop(func() {
				l.stored.pending--
				l.sched.Release(held)
				l.stored.saved(c)
			})
		},
	}
	if held.Tokens < blockstore.BlockTokens || !c.view.Save(s) {
		l.sched.Release(held)
		return
	}
	l.stored.pending++
	l.stored.saving[c]++
}

// checkWeights sets changed if the files of the weights have changed. The writer of the store calls
// it.
func (l *Loop) checkWeights() {
	if l.stored.changed || l.config.ChangedFile == nil {
		return
	}
	if file := l.config.ChangedFile(); file != "" {
		l.stored.changed = true
		slog.Warn("the model's files have changed since it was loaded: its prefix cache is no "+
			"longer written to disk", "file", file, "fix", "unload the model and load it again")
	}
}

// saved is called when a write of c has ended and released its memory.
func (b *storedBlocks) saved(c *conversation) {
	if b.saving[c]--; b.saving[c] == 0 {
		delete(b.saving, c)
	}
	waiting := b.afterSave
	b.afterSave = nil
	for _, f := range waiting {
		f()
	}
}

// stopWriting reports whether requests or Close have waited too long for the writer of the store.
// The writer calls it to know whether to stop.
func (l *Loop) stopWriting() bool {
	since := l.stored.shortSince.Load()
	if since > 0 && time.Since(time.Unix(0, since)) > shortageTimeout {
		return true
	}
	return l.inbox.pastDeadline()
}

// statesToStore chooses the states of c to store. In full blocks these are the state after the
// first message, which many conversations share, and states that are at least stateEvery tokens
// apart. If tail is true, it adds the last state and the state after the last message, where the
// next turn may resume. The state after the last message is needed because chat templates drop the
// reasoning of the answer that follows it.
func (l *Loop) statesToStore(c *conversation, held prefix.Held,
	tail bool) (chosen []blockstore.State) {
	states := slices.SortedFunc(slices.Values(held.States),
		func(a, b prefix.HeldState) int { return a.Position - b.Position })
	states = slices.CompactFunc(states,
		func(a, b prefix.HeldState) bool { return a.Position == b.Position })
	first, message := -1, -1
	for i, s := range states {
		if l.text.IsEOS(c.tokens[s.Position-1]) {
			if message = i; first < 0 {
				first = i
			}
		}
	}
	full := held.Tokens / blockstore.BlockTokens * blockstore.BlockTokens
	last := 0
	for i, s := range states {
		regular := i == first || s.Position-last >= l.stored.stateEvery
		atEnd := i == len(states)-1 || i == message
		if regular && (tail || s.Position <= full) || tail && atEnd {
			last = s.Position
			chosen = append(chosen, blockstore.State{Position: s.Position,
				Tensors: func() []blockstore.Tensor {
					return usedTensors(l.runner.SlotRegions(), []int32{s.Slot}, s.Position)
				}})
		}
	}
	return chosen
}

// CachedPrefix is a prefix cached in memory that is not part of a longer one.
type CachedPrefix struct {
	Tokens       []int32
	ResumeTokens int  // a request can resume after this many tokens
	Private      bool // only private requests have computed it
}

// CachedPrefixes lists the prefixes in memory, those of ended and of running requests. The least
// recently used comes first. It waits for the step in progress.
func (l *Loop) CachedPrefixes() []CachedPrefix {
	answer := make(chan []CachedPrefix, 1)
	l.runOnLoop(func() {
		var list []CachedPrefix
		l.sched.Leaves(func(p prefix.Leaf) {
			list = append(list, CachedPrefix{p.Tokens, p.Resumable, p.Private})
		})
		answer <- list
	})
	select {
	case list := <-answer:
		return list
	case <-l.inbox.ended:
		return nil
	}
}

// StoredModel returns the key of the model's blocks in the block store. Without a block store it
// returns the zero value.
func (l *Loop) StoredModel() blockstore.Model { return l.config.StoreModel }
