package engine

// The engine's side of the block store (engine/blockstore): what is asked of it, what is brought
// back, and what is given to it. The loop only keeps the books. Looking up, reading and writing
// files happen on other goroutines, over memory that the scheduler holds for them meanwhile, and
// each ends with a function that the loop runs (post).
//
// Down to disk. When a request ends, the full blocks of what it computed are handed to the store's
// writer, which skips those it has, with a state for every stateEvery tokens. The tail behind the
// last full block and the states at its end are worth a write only if nobody goes on from there
// soon: the next turn of an agent makes them useless. They follow when the conversation has been
// quiet for quietTime, when memory runs short, and when the engine closes.
//
// Up from disk. A new request of which memory knows too little is looked up in the store; the
// scheduler finds it pages when its turn comes (sched.Promotion), the files are read straight into
// them, and the request goes on behind a prefix like any other.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"headroom/engine/blockstore"
	"headroom/engine/cache"
	"headroom/engine/prefix"
	"headroom/engine/sched"
)

// BlockStore keeps what was computed on disk; see engine/blockstore.
type BlockStore = blockstore.Store

// BlockStoreOptions bound what a BlockStore takes of the disk.
type BlockStoreOptions = blockstore.Options

// BlockStoreLimits are those that an open BlockStore can change.
type BlockStoreLimits = blockstore.Limits

// StoredModel is what entries of a BlockStore belong to.
type StoredModel = blockstore.Model

// OpenBlockStore opens the store in a folder, which is made if need be. Several engines and
// processes may share it.
func OpenBlockStore(dir string, o BlockStoreOptions) (*BlockStore, error) {
	return blockstore.Open(dir, o)
}

const (
	quietTime = 3 * time.Second
	// patience is how long requests wait for memory that is being written. Writing is faster than
	// computing again, unless the disk is stuck.
	patience = 2 * time.Second
	// closeTime is how long closing waits for conversations that were never quiet. What does not
	// get to disk in it is dropped.
	closeTime = 10 * time.Second
	// lookups that find a damaged file are repeated, since the file is gone then, but not for ever.
	maxLookups = 4
)

// numerics is raised when the same model, format and tokens give other bits than before.
const numerics = 3

// blocks is what the loop knows of the store's work. The zero value has no store.
type blocks struct {
	model  blockstore.Model
	view   *blockstore.View
	ctx    context.Context
	cancel context.CancelFunc
	// tokens between two stored states at least: states take no more disk than the keys and values
	// between them
	stateEvery int
	working    int // reads and writes under way, which hold memory
	// since when requests have waited for pages, in Unix nanoseconds; 0: none does
	starved   atomic.Int64
	unsaved   []*conversation       // whose end is not stored, by when they ended
	saving    map[*conversation]int // by how many writes are under way
	afterSave []func()              // that wait for the end of one of saving
	// wakes the loop when the first of them has been quiet; nil until needed
	timer *time.Timer
	// that reading a prompt takes, of the last request that read a long one
	secondsPerToken float64
}

// conversation is tokens that were computed and may be continued.
type conversation struct {
	tokens []int32
	title  string
	reused bool
	ended  time.Time
	// forgotten ends the writing of what is being written. The loop says so, the writer asks.
	forgotten atomic.Bool
}

// connect gives the engine its view of the store.
func (e *Engine) connect(p *plan) {
	e.blocks.ctx, e.blocks.cancel = context.WithCancel(context.Background())
	e.blocks.saving = map[*conversation]int{}
	fingerprint := e.weights.Fingerprint()
	if e.options.BlockStore == nil || e.options.NoPrefixCache || fingerprint == "" {
		return
	}
	kv := p.kv.Describe(p.spec.Layers)
	if p.state != (cache.StateFormat{}) {
		kv += ", states " + p.state.Describe(p.spec.Layers)
	}
	e.blocks.model = blockstore.Model{
		Fingerprint: fingerprint,
		Format:      kv + " #" + e.layout(p.kv.Layers(p.spec.Layers)),
		Name:        e.options.ModelName,
	}
	e.blocks.view = e.options.BlockStore.Model(e.blocks.model)
	e.blocks.stateEvery = keepEvery
	if perToken := p.description.KVBytesPerToken; perToken > 0 {
		e.blocks.stateEvery = max(keepEvery, int(p.description.StateBytesPerSeq/perToken))
	}
}

// layout names everything that the cache's bytes depend on beside the weights.
func (e *Engine) layout(formats []cache.LayerFormat) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %t page %d\n", numerics, deviceKind(&e.options),
		e.options.Float32Activations, cache.PageTokens)
	for _, l := range formats {
		fmt.Fprintln(&b, l.K, l.V)
	}
	for _, r := range slices.Concat(e.runner.PageRegions(true), e.runner.PageRegions(false),
		e.runner.SlotRegions()) {
		fmt.Fprintln(&b, r.Name, r.PieceBytes)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return fmt.Sprintf("%x", sum[:8])
}

// post has the loop run f.
func (e *Engine) post(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mail = append(e.mail, f)
	e.signal()
}

// lookUp asks the store how much of a new request's prompt it has, unless memory knows nearly all
// of it.
func (e *Engine) lookUp(r *request) {
	known, resumed := e.sched.Known(&r.seq)
	limit := len(r.Prompt) - 1
	if e.blocks.view == nil || limit-resumed < e.sched.FetchTokens() || r.lookups == maxLookups {
		return
	}
	r.lookups++
	r.seq.Await = true
	e.blocks.working++
	go func() {
		found := e.blocks.view.Find(r.Prompt, limit, known, e.recurrent)
		e.post(func() {
			e.blocks.working--
			r.seq.Stored, r.seq.Await = found.Tokens, false
		})
	}()
}

// fetch reads a prefix back.
func (e *Engine) fetch(p *sched.Promotion) {
	r := p.Seq.Owner.(*request)
	e.blocks.working++
	// the pages may be in use until then; a device that has failed will not be asked about them
	e.settled()
	go func() {
		read, err := e.readBack(p)
		e.post(func() {
			e.blocks.working--
			_, r.storedFrom = e.sched.Known(p.Seq)
			e.sched.Promoted(p, err == nil)
			if err == nil {
				r.blockHits, r.storedTo = read, len(p.Tokens)
			}
			if err != nil && slices.Contains(e.requests, r) {
				slog.Info("a stored prefix could not be read back", "request", r.ID, "tokens",
					len(p.Tokens), "err", err)
				e.lookUp(r) // what is damaged is gone now: there may be a shorter one
			}
		})
	}()
}

// readBack fills a promotion's pages and slot and returns how many blocks it took. It runs beside
// the loop.
func (e *Engine) readBack(p *sched.Promotion) (read int, err error) {
	found := e.blocks.view.Find(p.Tokens, len(p.Tokens), p.From, e.recurrent)
	if found.Tokens != len(p.Tokens) {
		return 0, fmt.Errorf("engine: %d of %d tokens are stored: the rest has been evicted",
			found.Tokens, len(p.Tokens))
	}
	kv := func(b blockstore.Block) []blockstore.Tensor {
		pages := make([]int32, pagesOf(b.To-b.From))
		for i := range pages {
			pages[i] = -1 // in memory already
			if at := b.From + i*cache.PageTokens; at >= p.From {
				pages[i] = p.Pages[at/cache.PageTokens]
			}
		}
		return pieces(e.regionsAt(b.From), pages)
	}
	state := func() []blockstore.Tensor { return pieces(e.runner.SlotRegions(), []int32{p.Slot}) }
	return len(found.Blocks), e.blocks.view.Load(e.blocks.ctx, found, kv, state)
}

// pieces is the memory of pages, or of slots, as the store takes it: a tensor a region. -1 stands
// for none.
func pieces(regions []cache.Region, at []int32) []blockstore.Tensor {
	tensors := make([]blockstore.Tensor, len(regions))
	for i := range regions {
		tensors[i] = blockstore.Tensor{Name: regions[i].Name, Pieces: make([][]byte, len(at))}
		for j, n := range at {
			if n >= 0 {
				tensors[i].Pieces[j] = regions[i].Piece(n)
			}
		}
	}
	return tensors
}

// regionsAt is the memory of the pages of a block's tokens, from its first one on: a start is a
// whole number of blocks.
func (e *Engine) regionsAt(from int) []cache.Region {
	return e.runner.PageRegions(from < e.startTokens)
}

func pagesOf(tokens int) int { return (tokens + cache.PageTokens - 1) / cache.PageTokens }

// hasEnded takes note of a request that has ended, with so many tokens computed, and has its full
// blocks written.
func (e *Engine) hasEnded(r *request, tokens []int32, now time.Time) {
	if e.blocks.view == nil || len(tokens) < blockstore.BlockTokens {
		return
	}
	// One that was cancelled while it was read has no such time; the last known one is nearer to
	// the truth than none.
	if n, took := r.usage.PromptTokens-r.usage.CachedTokens,
		r.timing().Prefill; n >= blockstore.BlockTokens && took > 0 {
		e.blocks.secondsPerToken = took.Seconds() / float64(n)
	}
	c := &conversation{tokens: slices.Clone(tokens), title: r.title,
		reused: r.usage.CachedTokens > 0, ended: now}
	e.blocks.unsaved = slices.DeleteFunc(e.blocks.unsaved, func(old *conversation) bool {
		// c goes on from it
		return len(old.tokens) <= len(c.tokens) &&
			slices.Equal(old.tokens, c.tokens[:len(old.tokens)])
	})
	e.blocks.unsaved = append(e.blocks.unsaved, c)
	r.blockWrites = len(tokens)/blockstore.BlockTokens - r.usage.CachedTokens/blockstore.BlockTokens
	e.save(c, false)
}

// starving takes note of whether the last step lacked pages.
func (e *Engine) starving(now time.Time) {
	if !e.sched.Starved() {
		e.blocks.starved.Store(0)
	} else if e.blocks.starved.Load() == 0 {
		e.blocks.starved.Store(now.UnixNano())
	}
}

// saveEnds writes the ends of conversations that have been quiet; of all when the engine closes;
// and of those that might be forgotten before fresh requests take so many pages that they have to
// be.
func (e *Engine) saveEnds(now time.Time, fresh []*request, closing bool) {
	if len(e.blocks.unsaved) == 0 {
		return
	}
	need := prefix.Amount{Rest: 1} // for what goes on
	for _, r := range fresh {
		need = need.Plus(e.sched.PagesFor(len(r.Prompt)))
	}
	crowded := !e.sched.FreePages().Covers(need)
	e.blocks.unsaved = slices.DeleteFunc(e.blocks.unsaved, func(c *conversation) bool {
		due := closing || now.Sub(c.ended) >= quietTime || crowded &&
			!slices.ContainsFunc(fresh, c.continuedBy)
		if due {
			e.save(c, true)
		}
		return due
	})
	if len(e.blocks.unsaved) > 0 {
		wait := quietTime - now.Sub(e.blocks.unsaved[0].ended)
		if e.blocks.timer == nil {
			e.blocks.timer = time.AfterFunc(wait, func() { e.post(func() {}) })
		} else {
			e.blocks.timer.Reset(wait)
		}
	}
}

// continuedBy reports whether r is about to make c's end useless: it has most of it in common.
func (c *conversation) continuedBy(r *request) bool {
	n := len(c.tokens) * 3 / 4
	return len(r.Prompt) >= n && slices.Equal(r.Prompt[:n], c.tokens[:n])
}

// save hands what memory knows of a conversation to the store's writer: with tail to its end, else
// its full blocks.
func (e *Engine) save(c *conversation, tail bool) {
	if !e.settled() {
		return
	}
	held := e.sched.Hold(c.tokens)
	s := blockstore.Sequence{
		Tokens: c.tokens[:held.Tokens], Tail: tail, Reused: c.reused, Title: c.title,
		SecondsPerToken: e.blocks.secondsPerToken,
		Stop:            func() bool { return c.forgotten.Load() || e.abandoned() },
		KV: func(from, to int) []blockstore.Tensor {
			return pieces(e.regionsAt(from), held.Pages[from/cache.PageTokens:pagesOf(to)])
		},
		States: e.worthKeeping(c, held, tail),
		Done: func(blockstore.Saved) {
			e.post(func() {
				e.blocks.working--
				e.sched.Release(held)
				e.blocks.saved(c)
			})
		},
	}
	if held.Tokens < blockstore.BlockTokens || !e.blocks.view.Save(s) {
		e.sched.Release(held)
		return
	}
	e.blocks.working++
	e.blocks.saving[c]++
}

// abandoned reports whether requests or closing have waited so long that nothing more is to be
// written. The store's writer asks.
func (e *Engine) abandoned() bool {
	if since := e.blocks.starved.Load(); since > 0 && time.Since(time.Unix(0, since)) > patience {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing && time.Now().After(e.closeBy)
}

// worthKeeping chooses states of c to store: behind the first message, which many conversations
// share; one every stateEvery tokens of full blocks; and with tail the two that the next turn may
// go on from: where computing ended, and behind the last message, since templates drop old thoughts
// from the answer that came after it.
func (e *Engine) worthKeeping(c *conversation, held prefix.Held,
	tail bool) (chosen []blockstore.State) {
	states := slices.SortedFunc(slices.Values(held.States),
		func(a, b prefix.HeldState) int { return a.Position - b.Position })
	states = slices.CompactFunc(states,
		func(a, b prefix.HeldState) bool { return a.Position == b.Position })
	first, message := -1, -1
	for i, s := range states {
		if e.isEnd(c.tokens[s.Position-1]) {
			if message = i; first < 0 {
				first = i
			}
		}
	}
	full := held.Tokens / blockstore.BlockTokens * blockstore.BlockTokens
	last := 0
	for i, s := range states {
		if (tail || s.Position <= full) && (i == first || s.Position-last >= e.blocks.stateEvery) ||
			tail && (i == len(states)-1 || i == message) {
			last = s.Position
			chosen = append(chosen, blockstore.State{Position: s.Position,
				Tensors: pieces(e.runner.SlotRegions(), []int32{s.Slot})})
		}
	}
	return chosen
}

// Remembered is a prefix in memory that nothing longer in memory continues.
type Remembered struct {
	Tokens       []int32
	ResumeTokens int // after so many a request could go on
}

// Remembered lists what is in memory of ended and running requests, the longest unused first. It
// waits for the pass that is under way.
func (e *Engine) Remembered() []Remembered {
	answer := make(chan []Remembered, 1)
	e.post(func() {
		var list []Remembered
		e.sched.Leaves(func(tokens []int32,
			resumed int) {
			list = append(list, Remembered{tokens, resumed})
		})
		answer <- list
	})
	select {
	case list := <-answer:
		return list
	case <-e.ended:
		return nil
	}
}

// StoredAs is what the block store knows this model by; the zero value without a store.
func (e *Engine) StoredAs() StoredModel { return e.blocks.model }
