// Package loop serves one loaded model to many requests at once, by continuous batching.
//
// One goroutine, which executes the method run, owns the device, the scheduler and every running
// request. Each iteration of run schedules, launches and completes a step. Other goroutines send
// messages to the loop through its inbox, and read the Stats that it publishes. The loop never
// waits for a client, a disk or the network.
//
//	loop.go         the hot path: schedule, launch, complete
//	step.go         one forward pass: builds its batch, launches it, waits for it
//	draft.go        proposes tokens before a step, and accepts those that were right
//	chain.go        drafts of the model's own block, of a draft model or of a drafter of blocks
//	head.go         whether the block's steps compute the whole head or a part of it
//	block.go        the step of a drafter of blocks, and what of it is verified
//	draftmodel.go   a draft model: what it has read, its pages and slots
//	gain.go         what drafts gain, and why there are none
//	draftkept.go    what a draft model keeps of requests that have ended
//	form.go         answers of a given form: their masks, and tokens that are forced
//	token.go        turns the results of a step into tokens, text and events; ends requests
//	adapter.go      adapters of requests: loaded, placed on the device, dropped
//	inbox.go        Submit, Cancel and Close, which other goroutines call
//	request.go      a Request and its Events
//	embed.go        vectors of prompts
//	score.go        log-probabilities of prompt tokens
//	stream.go       delivers the events to the client
//	stored.go       looks up, reads and writes cached blocks on disk
//	preload.go      reads recent conversations from disk before the first request
//	promptfile.go   writes and reads a prompt cache that is a file
//	forget.go       drops a conversation from memory
//	held.go         says what is cached of a prompt by its hashes
//	shrink.go       returns memory of the caches to the system
//	prefillstall.go limits the prompt tokens of a pass that also decodes
//	background.go   limits what requests in the background cost the others
//	throttle.go     idles between steps, to cool a hot computer
//	heartbeat.go    shows a watchdog that the loop makes progress
//	steptime.go     how long a step may last before something is wrong
//	requestlog.go   logs ended requests: the PERF line and the cause of a cache miss
//	retryafter.go   estimates when a refused client should try again
//	lacking.go      refuses requests that have waited for memory in vain
//	stats.go        counters, and the snapshot that Stats returns
//	testing.go      what only tests call
package loop

import (
	"sync/atomic"
	"time"

	"headroom/engine/adapter"
	"headroom/engine/blockstore"
	"headroom/engine/cachemiss"
	"headroom/engine/prefix"
	"headroom/engine/runner"
	"headroom/engine/sched"
	"headroom/engine/textproc"
)

const (
	defaultQueueRequests   = 64
	defaultMaxPrefillStall = 250 * time.Millisecond
	// firstMixedChunkTokens is the chunk size of mixed passes before the first measurement
	// (prefillstall.go).
	firstMixedChunkTokens = 128
)

// Config configures a loop. Runner, Text, Sched and ContextTokens are required.
type Config struct {
	Runner *runner.Runner
	Text   *textproc.Processor
	// Sched describes the runner's pages and slots. The loop sets MixedChunkTokens.
	Sched           sched.Options
	ContextTokens   int           // maximum length of a prompt and its answer
	QueueRequests   int           // requests that may wait; 0: 64
	MaxPrefillStall time.Duration // see engine.Options; 0: 250 ms

	// Store keeps cached blocks on disk under the key StoreModel; nil: nothing is stored. Stored
	// recurrent states are at least StateEveryTokens apart.
	Store            *blockstore.Store
	StoreModel       blockstore.Model
	StateEveryTokens int
	// ChangedFile returns a file of the weights that has changed since it was read; "": none. From
	// then on nothing is stored, since StoreModel does not say what computed it. The writer of the
	// Store calls it. nil: files do not change.
	ChangedFile func() string
	Speculate   string // how tokens are decoded ahead; see draft.CheckWay
	// Draft decides what a pass verifies after the given tokens, whatever it costs. If it returns
	// nil, or is nil, the loop decides. It is called by the loop and must not block. If running is
	// true, the token after the given ones is being computed. Then Draft says whether the pass
	// after the next one would have drafts.
	Draft func(tokens []int32, running bool) *Drafts
	// DraftModel drafts in place of the model's own block; nil: there is none.
	DraftModel *DraftModel
	// AttachedDrafts is the maximum number of drafts in a pass of a drafter that is a part of the
	// model; 0: draft.MaxTokens, or as many as it has in a block.
	AttachedDrafts int
	// NoBlock means that the model's own block that drafts cannot be used.
	NoBlock bool
	// PreloadBytes limits the memory of the conversations that are read from the Store at the
	// start; 0: none are read.
	PreloadBytes int64

	// FitAdapter reads an adapter and fits it to the model. It is called on the goroutine of
	// Submit, one call at a time. nil: the model has no adapters.
	FitAdapter func(dir string) (*adapter.Fitted, error)

	// History holds the tokens of earlier requests; nil: an empty History. Fingerprint and
	// KVFormats identify the model and the cache format of this loop in it.
	History                *History
	Fingerprint, KVFormats string

	// DeviceError returns the error of requests whose step the device has not completed because of
	// err. It is called once for each such step. nil: err itself.
	DeviceError func(err error) error

	// Heartbeat is a counter that the loop advances. The device may advance it too. nil: a new
	// counter.
	Heartbeat *atomic.Uint64
	// Need is the memory for the model, and SlotBytes that of a slot.
	Need      Need
	SlotBytes int64
}

// Need is the memory that a model is promised; see plan.Need. OtherBytes is the part of StateBytes
// that is not in the slots of the scheduler: the caches of a draft model.
type Need struct {
	WeightsBytes, KVBytes, StateBytes, ScratchBytes, GrowthBytes, OtherBytes int64
}

// Loop serves requests with one model. Its methods may be called from any goroutine.
type Loop struct {
	config      Config
	runner      *runner.Runner
	text        *textproc.Processor
	inbox       inbox
	log         *requestLog
	published   published
	heartbeat   *atomic.Uint64
	stepTime    stepTime
	throttled   throttle
	growth      atomic.Pointer[sched.Growth] // of SetGrowth, not yet taken; nil: none
	turns       turns                        // of refused clients
	adapters    adapters
	lackingWait time.Duration // of refuseLacking; 0: the usual one
	oneByOne    bool          // forced tokens are not added together; for tests

	// Only the goroutine of run uses the fields below.
	sched    *sched.Scheduler
	requests []*request // taken from the inbox and not ended, oldest first
	endings  []ending
	steps    steps
	stored   storedBlocks
	adapterMemory
	stall prefillStall
	// background is what steps with background rows cost the other requests.
	background background
	stops      int // steps of the background that were stopped
	stopsInRow int // since a step with background rows ended
	drafts     drafts
	counters   counters
}

// New starts a loop.
func New(c Config) *Loop {
	if c.QueueRequests <= 0 {
		c.QueueRequests = defaultQueueRequests
	}
	if c.MaxPrefillStall <= 0 {
		c.MaxPrefillStall = defaultMaxPrefillStall
	}
	if c.Heartbeat == nil {
		c.Heartbeat = new(atomic.Uint64)
	}
	c.Sched.MixedChunkTokens = min(firstMixedChunkTokens, c.Sched.ChunkTokens)
	l := &Loop{config: c, runner: c.Runner, text: c.Text, inbox: newInbox(),
		heartbeat: c.Heartbeat, sched: sched.New(c.Sched)}
	l.throttled.pause = l.sleep
	l.adapters.fit = c.FitAdapter
	l.drafts.enabled = c.Sched.DraftTokens > 0
	l.drafts.way, l.drafts.chains.model = c.Speculate, newDraftModel(c.DraftModel,
		c.Runner.VocabSize())
	l.drafts.chains.init(&c)
	l.drafts.forced = c.Draft
	l.published.stats = Stats{WeightsBytes: c.Need.WeightsBytes, ScratchBytes: c.Need.ScratchBytes}
	l.publishMemory(&l.published.stats)
	l.stored.init(&c)
	l.log = newRequestLog(c.History, c.Fingerprint, c.KVFormats, cachemiss.Outcome{
		CacheOff: c.Sched.NoPrefixes, Recurrent: c.Sched.Recurrent,
		Decode: func(tokens []int32) string { return c.Text.Tokenizer().Decode(tokens, false) }})
	go l.run()
	go l.log.run(l.inbox.ended)
	if l.stored.view != nil && c.PreloadBytes > 0 {
		go l.runPreload(c.PreloadBytes)
	}
	return l
}

// run is the body of the loop. It returns once the loop is closing and nothing is in progress.
func (l *Loop) run() {
	defer close(l.inbox.ended)
	for {
		l.heartbeat.Add(1)
		open := l.takeInbox()
		l.takeGrowth()
		l.steps.began = time.Now()
		l.propose()
		work := l.sched.Next()
		// Restores precede fetches, because a fetch may overwrite a page that a restore copies.
		l.refuseLacking(time.Now())
		restoreErr := l.restorePrefixes(work)
		for _, p := range l.sched.Promotions() {
			l.fetch(p)
		}
		if restoreErr == nil {
			restoreErr = l.draftChains(work)
		}
		l.stored.noteShortage(l.sched.ShortOfPages(), time.Now())
		l.publish() // before the step, which may be long
		switch {
		case len(work) > 0 || l.steps.inFlight != nil:
			l.step(work, restoreErr)
			l.publish()
			l.throttle()
		case open || l.stored.pending > 0:
			<-l.inbox.wake
		default:
			return
		}
	}
}

// SetGrowth limits how much memory is taken from now on, beyond what is promised or was written;
// see sched.Growth. A loop that was never told takes memory until its caches are full.
func (l *Loop) SetGrowth(g sched.Growth) {
	l.growth.Store(&g)
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	l.inbox.signal() // a request may wait for it
}

// takeGrowth applies the limit that SetGrowth has set since the last call.
func (l *Loop) takeGrowth() {
	if g := l.growth.Swap(nil); g != nil {
		l.sched.SetGrowth(*g, l.config.SlotBytes)
	}
}

// step launches the next step, if there is work, then completes the previous one. On a GPU the next
// step already runs while the previous one is completed, and it stays in flight until the next call
// of step. restoreErr is the error of restorePrefixes.
func (l *Loop) step(work []sched.Work, restoreErr error) {
	previous := l.steps.inFlight
	l.steps.inFlight = nil
	var next *step
	if len(work) > 0 {
		next = l.launch(work, restoreErr)
	}
	if previous != nil {
		l.complete(previous)
	}
	switch {
	case next == nil:
	case next.err == runner.ErrStopped:
		l.stopped(next)
	case next.async && l.throttled.idleShare() == 0:
		l.steps.inFlight = next
	default:
		l.complete(next)
	}
}

// restorePrefixes restores the cached prefix of every newly admitted sequence. Full pages are
// already shared. The partial last page and the recurrent state are copied here. A panic is
// returned as an error, so that it fails this step only.
func (l *Loop) restorePrefixes(work []sched.Work) (err error) {
	defer recovered(&err)
	for _, w := range work {
		r := w.Restore
		if r == nil {
			continue
		}
		if r.FromPage >= 0 {
			l.runner.CopyPage(r.FromPage, r.ToPage)
		}
		if r.FromSlot >= 0 {
			l.runner.CopyState(r.FromSlot, r.ToSlot)
		}
	}
	return nil
}

// keepState copies the state in slot to k.Slot, so that later sequences can resume there. Its
// arguments are the results of Scheduler.Remove. If k is nil, it does nothing.
func (l *Loop) keepState(slot int32, k *sched.Keep) {
	if k != nil {
		l.runner.CopyState(slot, k.Slot)
	}
}

// pageBytes returns the memory of the given pages in bytes.
func (l *Loop) pageBytes(pages prefix.Amount) int64 { return pages.Bytes(l.config.Sched.PageBytes) }
