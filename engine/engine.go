package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"headroom/engine/blockstore"
	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/device"
	"headroom/engine/loop"
	"headroom/engine/plan"
	"headroom/engine/prefix"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/sched"
	"headroom/engine/textproc"
	"headroom/kernels"
)

// Engine is one loaded model. Its methods may be called from any goroutine.
type Engine struct {
	*TextProcessor
	info    Info
	options Options
	plan    *plan.Plan
	device  *device.Device
	kernels kernels.Device // device.Kernels; on the CPU, a wrapper that advances the heartbeat
	weights *checkpoint.Weights
	runner  *runner.Runner
	draft   draftModel
	loop    *loop.Loop
	tuning  tunedGPU

	freeOnce sync.Once
	freeErr  error
}

// Open loads a model and starts to serve it. A model that does not fit into memory is refused
// before its weights are read. Loading stops when ctx ends. Errors are Problems.
func Open(ctx context.Context, src Source, o Options) (*Engine, error) {
	e, err := open(ctx, src, o, o.planning())
	switch {
	case err == nil:
		return e, nil
	case e != nil && ctx.Err() == nil:
		return e.openWithoutDrafter(ctx, src, err)
	}
	return nil, err
}

// open opens a model that is planned with p. If loading it fails, open returns a closed Engine with
// the error, else nil.
func open(ctx context.Context, src Source, o Options, p plan.Options) (e *Engine, err error) {
	e = &Engine{options: o}
	e.device, err = device.Open(device.Options{Name: o.Device, Threads: o.Threads,
		Float32Activations: o.Float32Activations, OpenMetal: o.OpenMetal, Times: o.Times})
	if err != nil {
		return nil, err
	}
	heartbeat := new(atomic.Uint64)
	e.kernels = e.device.Kernels
	if e.device.Name == DeviceCPU {
		e.kernels = kernels.NewCountingDevice(e.kernels, heartbeat)
	}
	if err := e.makePlan(src, p); err != nil {
		e.device.Close()
		return nil, err
	}
	if err := e.load(ctx, src); err != nil {
		e.device.Close()
		return e, err
	}
	e.useTuning()
	made := e.plan
	e.info = Info{Description: made.Description, Device: e.kernels.Name(),
		KVFormat:    made.KV.Describe(made.Spec.Layers) + cache.DescribeRings(made.Spec.Layers),
		StateFormat: made.State.Describe(made.Spec.Layers)}
	e.info.ContextTokens, e.info.Drafter = made.ContextTokens, e.drafter()
	e.info.DraftModel, e.info.DraftModelUnused = e.draftModelInUse()
	e.info.Tuned = len(e.tuning.record.Values)
	e.info.Lookups = made.DraftTokens > 0 && o.looksUp()
	e.warnOfNoDrafter(p)
	config := e.loopConfig(heartbeat)
	if err := e.checkAdapter(config.FitAdapter); err != nil {
		e.device.Close()
		_, _ = e.weights.Close(), e.draft.close()
		return nil, err
	}
	e.loop = loop.New(config)
	return e, nil
}

// makePlan plans the model for the device and reads its tokenizer.
func (e *Engine) makePlan(src Source, o plan.Options) (err error) {
	named := e.options
	named.Device = e.device.Name
	if err := named.checkSnapKV(); err != nil {
		return err
	}
	o.LongestBuffer = e.device.LongestBuffer()
	if e.plan, err = plan.New(src, o); err != nil {
		return err
	}
	if err := cmp.Or(e.plan.Check(), e.plan.CheckBuffers()); err != nil {
		return err
	}
	if err := e.plan.DrafterError; err != nil {
		slog.Warn(blockUnused, "err", err)
	}
	if e.TextProcessor, err = textproc.ReadWithConfig(src, e.plan.Config); err != nil {
		return err
	}
	return e.checkDraftModel(src, o)
}

// load loads the model, and the draft model if there is one.
func (e *Engine) load(ctx context.Context, src Source) (err error) {
	report, draft := e.options.Progress, e.plan.Draft
	if report == nil {
		report = func(float64) {}
	}
	first := 1.0
	if draft != nil {
		size := float64(e.plan.Description.SizeBytes)
		first = size / max(size+float64(draft.Description.SizeBytes), 1)
	}
	if err := e.openAttached(ctx); err != nil {
		return err
	}
	if e.weights, e.runner, err = e.loadModel(ctx, src, e.plan,
		func(done float64) { report(first * done) }); err != nil {
		_ = e.draft.close()
		return err
	}
	if draft != nil {
		e.draft.weights, e.draft.runner, err = e.loadModel(ctx, e.options.DraftModel.Source, draft,
			func(done float64) { report(first + (1-first)*done) })
		if err != nil {
			_ = e.weights.Close()
			return err
		}
	}
	e.device.LogCopies()
	e.device.KeepResident()
	return nil
}

// loadModel maps a model's weights and allocates its caches. It also reads all weights once, so
// that the first request does not wait for the disk.
func (e *Engine) loadModel(ctx context.Context, src Source, p *plan.Plan,
	report func(float64)) (w *checkpoint.Weights, r *runner.Runner, err error) {
	if w, err = p.Open(src, e.kernels); err != nil {
		return nil, nil, err
	}
	defer func() {
		if r := recover(); r != nil { // the system refused memory that it had reported as available
			err = problem.New(problem.DoesNotFit, "The model does not fit", fmt.Sprint(r),
				"Close other apps, or pick a smaller model.")
		}
		if err != nil {
			_ = w.Close()
		}
	}()
	e.rememberDigest(w, p)
	reading, copying := loadingShares(w, p, report)
	if err := loadingStopped(w.Prefault(ctx, reading)); err != nil {
		return w, nil, err
	}
	w.Skip(p.Unread)
	w.Progress = func(share float64) error {
		copying(share)
		return loadingStopped(ctx.Err())
	}
	m, err := p.Load(src, w, e.draft.weights)
	if err != nil {
		return w, nil, err
	}
	if err := w.CheckHoles(); err != nil {
		return w, nil, err
	}
	copying(1)
	r = runner.New(e.kernels, m, p.Runner)
	if err := e.kernels.Sync(); err != nil {
		return w, nil, problem.Wrap(problem.DoesNotFit, err,
			"The GPU cannot allocate the model's memory",
			"Close other apps, or pick a smaller model.")
	}
	return w, r, nil
}

// rememberDigest lets the block store remember the digest of w, if what p plans is stored there.
// Prompt caches need the digest, too, and without a store nothing remembers it.
func (e *Engine) rememberDigest(w *checkpoint.Weights, p *plan.Plan) {
	switch {
	case p.NoPrefixCache:
	case e.options.BlockStore != nil:
		w.Digests = e.options.BlockStore
	case e.options.PromptCaches:
		w.Digests = forgetful{}
	}
}

// forgetful remembers no digest.
type forgetful struct{}

func (forgetful) Digest(string) (text string, ok bool) { return "", false }
func (forgetful) SetDigest(_, _ string)                {}

// loadingStopped returns the Problem of a load that err has stopped; nil: it has not.
func loadingStopped(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Cancelled, err, "Loading the model was stopped", "")
}

// loadingShares returns the functions that report the progress of reading the weights and of
// copying them, each from 0 to 1. Copying takes about as long per byte as reading; most models copy
// next to nothing.
func loadingShares(w *checkpoint.Weights, p *plan.Plan,
	report func(float64)) (reading, copying func(float64)) {
	read, copied := float64(w.SizeBytes()), float64(p.CopiedBytes)
	share := read / max(read+copied, 1)
	return func(part float64) { report(part * share) },
		func(part float64) { report(share + part*(1-share)) }
}

func (e *Engine) loopConfig(heartbeat *atomic.Uint64) loop.Config {
	o, p := &e.options, e.plan
	need := p.Description.Need
	c := loop.Config{
		Runner: e.runner, Text: e.TextProcessor, Sched: e.schedOptions(),
		ContextTokens: p.ContextTokens, QueueRequests: o.QueueRequests, Speculate: o.Speculate,
		MaxPrefillStall: o.MaxPrefillStall, Draft: o.Draft, DraftModel: e.loopDraftModel(),
		AttachedDrafts: e.attachedDrafts(), NoBlock: e.plan.DrafterError != nil,
		History: o.History, Fingerprint: e.weights.Fingerprint(), FitAdapter: e.fitAdapter(),
		KVFormats: e.info.KVFormat + ", states " + e.info.StateFormat,
		Heartbeat: heartbeat, DeviceError: e.deviceError,
		SlotBytes: p.SlotBytes(),
		Need: loop.Need{WeightsBytes: need.WeightsBytes, KVBytes: need.KVBytes,
			StateBytes: need.StateBytes, ScratchBytes: need.ScratchBytes,
			GrowthBytes: need.GrowthBytes, OtherBytes: p.DraftCacheBytes()},
	}
	if o.BlockStore != nil && !p.NoPrefixCache && c.Fingerprint != "" && e.unchanged() {
		c.Store, c.StoreModel, c.ChangedFile = o.BlockStore, e.storedModel(), e.changedFile
		c.PreloadBytes = min(o.PreloadBytes, p.Pages.Bytes(p.PageSizes)/4)
	}
	// At this distance, a stored state is no larger than the keys and values between two states.
	if perToken := p.Description.KVBytesPerToken; perToken > 0 {
		c.StateEveryTokens = int(p.Description.StateBytesPerSeq / perToken)
	}
	return c
}

// changedFile returns a file that stored keys and values depend on, if it has changed since its
// digest was found.
func (e *Engine) changedFile() string {
	file := e.weights.ChangedFile()
	if file == "" && e.plan.Spec.Block != nil {
		file = e.draft.weights.ChangedFile()
	}
	return file
}

// unchanged reports whether no file has changed while the model was loaded. Otherwise the digest
// may be that of other weights than those in memory.
func (e *Engine) unchanged() bool {
	file := e.changedFile()
	if file != "" {
		slog.Warn("the model's files have changed while it was loaded: its prefix cache on disk "+
			"is not used", "file", file, "fix", "unload the model and load it again")
	}
	return file == ""
}

func (e *Engine) schedOptions() sched.Options {
	o, p := &e.options, e.plan
	hot := int64(0)
	if o.MemoryCacheBytes > 0 && p.PageSizes.Rest > 0 {
		hot = max(o.MemoryCacheBytes, p.PageSizes.Rest)
	}
	return sched.Options{Pages: p.Pages.Total(), StartPages: p.Pages.Start,
		StartTokens: p.Description.KVStartTokens, PageTokens: cache.PageTokens,
		Slots: p.MaxSequences, NoPrefixes: p.NoPrefixCache,
		Recurrent: p.Description.StateBytesPerSeq > 0, StateSlots: p.KeptStates,
		Guaranteed: p.Guaranteed(), AtRest: p.AtRest(), GuaranteedStates: p.GuaranteedStates(),
		PreferPrefill: o.PreferPrefill, HotBytes: hot, PageBytes: p.PageSizes,
		HotConversations: o.PromptCacheSize, ChunkTokens: p.ChunkTokens,
		DraftTokens: p.DraftTokens, DraftSlots: p.DraftSlots,
		States:       p.HasStates(),
		Select:       sched.SelectOptions{Tokens: p.SelectTokens, From: p.SelectFrom},
		WholePrompts: p.Spec.Vectors != nil && p.Spec.Vectors.Whole}
}

// numerics is the version of the arithmetic. It is increased whenever the same model, format and
// tokens give different bits than before. Since 4, the norms of GatedDeltaNet's queries and keys
// add their epsilon to the sum of squares, not to the mean.
const numerics = 4

// storedModel returns the key of the model's blocks in the block store. The key includes everything
// that affects the bytes of the caches.
func (e *Engine) storedModel() blockstore.Model {
	p := e.plan
	format := p.KV.Describe(p.Spec.Layers)
	if p.State != (cache.StateFormat{}) {
		format += ", states " + p.State.Describe(p.Spec.Layers)
	}
	var b strings.Builder
	// In words, this is Engine.computation.
	fmt.Fprintf(&b, "%d %s %t page %d\n", numerics, e.device.Kind(),
		e.options.Float32Activations, cache.PageTokens)
	for _, l := range p.KV.Layers(p.Spec.Layers) {
		fmt.Fprintln(&b, l.K, l.V)
	}
	for _, r := range slices.Concat(e.runner.PageRegions(true), e.runner.PageRegions(false),
		e.runner.SlotRegions()) {
		fmt.Fprintln(&b, r.Name, r.PieceBytes)
	}
	if p.Spec.Block != nil { // its keys and values are in the pages
		fmt.Fprintln(&b, "dflash", e.draft.weights.Fingerprint())
	}
	sum := sha256.Sum256([]byte(b.String()))
	return blockstore.Model{Fingerprint: e.weights.Fingerprint(),
		Format: format + fmt.Sprintf(" #%x", sum[:8]), Name: e.options.ModelName}
}

// Close ends every request, writes the cached prefixes that are not yet in the block store, and
// frees the model's memory. A second call waits for the first one. The engine must not be used
// afterwards.
func (e *Engine) Close() error {
	e.loop.Close()
	e.freeOnce.Do(func() {
		e.device.Close()
		e.freeErr = cmp.Or(e.weights.Close(), e.draft.close())
	})
	return e.freeErr
}

// Info describes the model and how it runs.
func (e *Engine) Info() Info { return e.info }

// Submit queues a request. Its events arrive on the stream. The last one, Done, arrives when the
// request finishes or is cancelled. Errors are Problems.
func (e *Engine) Submit(r Request) (*Stream, error) {
	if r.Adapter == nil && e.options.Adapter != nil && !r.Embed {
		r.Adapter = e.options.Adapter
	}
	return e.loop.Submit(r)
}

// Cancel stops the request with that ID and reports whether it found one.
func (e *Engine) Cancel(id string) bool { return e.loop.Cancel(id) }

// Stats returns a snapshot of the engine. It never waits for a step.
func (e *Engine) Stats() Stats { return e.loop.Stats() }

// Recent returns the last 64 requests that have ended, newest first. It includes every request
// whose Done event has been read.
func (e *Engine) Recent() []Finished { return e.loop.Recent() }

// Heartbeat returns the engine's progress, for a watchdog. It never waits for the engine.
func (e *Engine) Heartbeat() Heartbeat { return e.loop.Heartbeat() }

// SetDutyCycle limits the engine to a share of the time, from 0.05 to 1. At 0.5 it idles half of
// the time.
func (e *Engine) SetDutyCycle(share float64) { e.loop.SetDutyCycle(share) }

// SetGrowth limits how much memory is taken from now on, beyond what is promised or was written.
// Without it, a conversation of the whole context always has its memory, and the caches grow by up
// to Need.GrowthBytes. A request that lacks memory waits for it, then fails.
func (e *Engine) SetGrowth(g Growth) { e.loop.SetGrowth(g) }

// Shrink evicts cached prefixes, least recently used first, until their pages take at most
// keepBytes bytes, and returns unused memory of the caches to the system; it returns how many
// bytes. It does nothing on a GPU, whose memory is freed by closing the engine. See
// loop.Loop.Shrink.
func (e *Engine) Shrink(keepBytes int64) (freedBytes int64) { return e.loop.Shrink(keepBytes) }

// SetDraftGain sets how many times as fast as plain decoding a pass that decodes ahead has to be,
// by what is expected of it; 0: hardly faster. No answer depends on it.
func (e *Engine) SetDraftGain(gain float64) { e.loop.SetDraftGain(gain) }

// CachedPrefixes lists the prefixes in memory, the least recently used first. It waits for the step
// in progress.
func (e *Engine) CachedPrefixes() []CachedPrefix { return e.loop.CachedPrefixes() }

// Held returns how much of a prompt, of which only hashes are known, is cached; see
// loop.Loop.Held. ok is false if ctx ends first.
func (e *Engine) Held(ctx context.Context, q HeldQuestion) (h Held, ok bool) {
	return e.loop.Held(ctx, q)
}

// NewHeldQuestion returns the question for a prompt; see loop.NewHeldQuestion.
func NewHeldQuestion(tokens []int32, blockTokens int, positions []int) HeldQuestion {
	return loop.NewHeldQuestion(tokens, blockTokens, positions)
}

// PrefixChain returns the hashes of the whole blocks of a prompt.
func PrefixChain(tokens []int32, blockTokens int) []PrefixHash {
	return prefix.Chain(tokens, blockTokens)
}

// ExtendPrefixChain adds to the PrefixChain of the first of the tokens the hashes of the blocks
// after them.
func ExtendPrefixChain(chain []PrefixHash, tokens []int32, blockTokens int) []PrefixHash {
	return prefix.ExtendChain(chain, tokens, blockTokens)
}

// StoredModel returns the key of the model's blocks in the block store. Without a block store it
// returns the zero value.
func (e *Engine) StoredModel() StoredModel { return e.loop.StoredModel() }

// Forget drops a conversation from memory and returns the bytes of the pages that it freed. It
// drops every cached sequence that begins with tokens, and every one that is a prefix of tokens,
// except for pages that other conversations or running requests use. See loop.Loop.Forget.
func (e *Engine) Forget(tokens []int32) (freedBytes int64) { return e.loop.Forget(tokens) }

// ForgetAll does what Forget does, for every conversation.
func (e *Engine) ForgetAll() (freedBytes int64) { return e.loop.ForgetAll() }

// PassCost returns the minimum memory traffic and arithmetic of one pass. For each of the
// sequences, the pass computes newTokens tokens after a context of contextTokens. If logits is
// true, it also computes the logits of the last of these tokens.
func (e *Engine) PassCost(sequences, newTokens, contextTokens int, logits bool) PassCost {
	c := e.runner.Cost(sequences, newTokens, contextTokens, logits)
	if e.options.Float32Activations {
		c.Float32 += c.Int8
		c.Int8 = 0
	}
	return c
}

// Describe reads the headers of a model's files and returns its description. The description
// includes the memory that the model would need with o. Errors are Problems.
func Describe(src Source, o Options) (Description, error) {
	return plan.Describe(src, o.planning())
}

// DescribeCache returns the cache memory of a model with the given config.json. It uses the cache
// formats and limits of o. The quantization of the weights does not matter. Errors are Problems.
func DescribeCache(config []byte, o Options) (CacheCost, error) {
	return plan.Cache(config, o.planning())
}

// Architectures returns the supported values of config.json's model_type, sorted.
func Architectures() []string { return plan.Architectures() }

// Supported returns Architectures and the encoders, which compute vectors or scores, sorted.
func Supported() []string { return plan.Supported() }

// NewStream returns a stream for a request of an engine that runs elsewhere, and a function that
// adds events to it. Only one goroutine at a time may call put, and the last event must be Done.
// Stream.Cancel calls end with FinishCancelled, and Stream.Stop with FinishStop.
func NewStream(id string, end func(FinishReason)) (s *Stream, put func(Event)) {
	return loop.NewStream(id, end)
}

// ShortenVector returns the first dimensions of a vector, with the length 1 if normalized is true.
func ShortenVector(v []float32, dimensions int, normalized bool) []float32 {
	return loop.ShortenVector(v, dimensions, normalized)
}

// NewHistory returns an empty History.
func NewHistory() *History { return loop.NewHistory() }

// ReadTextProcessor reads a model's tokenizer and chat template without loading the model. Errors
// are Problems.
func ReadTextProcessor(src Source) (*TextProcessor, error) { return textproc.Read(src) }

// OpenBlockStore opens the store in a folder, and creates the folder if it does not exist. Several
// engines and processes may share it.
func OpenBlockStore(dir string, o BlockStoreOptions) (*BlockStore, error) {
	return blockstore.Open(dir, o)
}
