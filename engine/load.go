package engine

// Opening a model: what it is, what it needs, whether that fits, and only then its weights.

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/shirou/gopsutil/v3/mem"

	"headroom/engine/cache"
	"headroom/engine/cachemiss"
	"headroom/engine/checkpoint"
	"headroom/engine/models"
	"headroom/engine/prefix"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/sched"
	"headroom/kernels"
)

const (
	defaultMaxSequences = 8
	defaultChunkTokens  = 512
	// of a step that also decodes, until its time has been measured (stall.go)
	mixedChunkTokens = 128
	defaultQueue     = 64
	// below this a model is no use, so a context chosen by us is never shorter
	minContextTokens = 2048
)

func (o *Options) setDefaults() {
	if o.MaxSequences <= 0 {
		o.MaxSequences = defaultMaxSequences
	}
	if o.ChunkTokens <= 0 {
		o.ChunkTokens = defaultChunkTokens
	}
	if o.MaxStall <= 0 {
		o.MaxStall = defaultMaxStall
	}
	if o.QueueRequests <= 0 {
		o.QueueRequests = defaultQueue
	}
}

// plan is a model's shapes and the memory they take, worked out without reading a weight.
type plan struct {
	config      *checkpoint.Config
	kv          cache.Format
	state       cache.StateFormat
	pages       prefix.Amount
	pageSizes   prefix.Sizes
	runner      runner.Options
	spec        models.Spec
	description Description
	askedTokens int // the context the user asked for, 0 if any will do
}

// Architectures lists the kinds of models, by config.json's model_type, that can be opened; sorted.
func Architectures() []string { return models.Architectures() }

// Describe reads a model's headers and says what it is and what it would take with o.
func Describe(src Source, o Options) (Description, error) {
	p, err := makePlan(src, &o)
	if err != nil {
		return Description{}, err
	}
	return p.description, nil
}

func makePlan(src Source, o *Options) (made *plan, err error) {
	o.setDefaults()
	p := &plan{askedTokens: o.ContextTokens}
	if p.kv, err = cache.ParseFormat(o.kvFormat()); err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "This KV cache format does not exist", "")
	}
	if o.MaxKVTokens < 0 || 0 < o.MaxKVTokens && o.MaxKVTokens < cache.MinLimitTokens {
		return nil, problem.New(problem.BadRequest, "This is too small for a KV cache",
			fmt.Sprintf("it is to keep %d tokens; at least %d are needed, or 0 for all",
				o.MaxKVTokens, cache.MinLimitTokens), "")
	}
	if p.state, err = cache.ParseStateFormat(o.StateFormat); err != nil {
		return nil, problem.Wrap(problem.BadRequest, err,
			"This form of recurrent states does not exist", "")
	}
	if p.config, err = src.Config(); err != nil {
		return nil, err
	}
	w, err := checkpoint.Open(src, p.config, kernels.NewMeasure())
	if err != nil {
		return nil, err
	}
	defer w.Close()
	m, err := models.Load(w)
	if err != nil {
		return nil, err
	}
	if !src.Has("tokenizer.json") {
		return nil, problem.New(problem.ModelBroken,
			"The model in "+src.String()+" has no tokenizer.json", "",
			"Download it again; models with other tokenizer files are not supported.")
	}
	defer func() {
		if r := recover(); r != nil {
			// an operator refused a shape, on the device that only measures
			made, err = nil, problem.New(problem.UnknownArchitecture,
				"Headroom cannot run a model of these shapes", fmt.Sprint(r), "Pick another model.")
		}
	}()
	p.spec = m.Spec()
	p.runner = runner.Options{KV: p.kv, State: p.state, MaxKVTokens: p.limit(o),
		BatchRows: o.ChunkTokens + o.MaxSequences, LogitsRows: o.MaxSequences}
	p.spec.Layers = cache.Limit(p.spec.Layers, p.runner.MaxKVTokens)
	slotBytes := cache.SlotBytes(p.spec.Layers, p.state) +
		cache.RingBytes(p.spec.Layers, p.kv, p.runner.BatchRows)
	p.keptStates(o, slotBytes)
	p.runner.Slots = o.MaxSequences + o.KeptStates
	p.pageSizes = prefix.Sizes{Start: cache.StartPageBytes(p.spec.Layers, p.kv),
		Rest: cache.PageBytes(p.spec.Layers, p.kv)}
	d := &p.description
	*d = Description{
		Architecture:     p.config.ModelType,
		Quantization:     p.config.Quantization.String(),
		SizeBytes:        w.SizeBytes(),
		Parameters:       w.Parameters(),
		ContextTokens:    p.spec.ContextTokens,
		KVBytesPerToken:  p.pageSizes.Rest / cache.PageTokens,
		StateBytesPerSeq: slotBytes,

		KVStartTokens:        p.kv.Start(p.spec.Layers),
		KVStartBytesPerToken: p.pageSizes.Start / cache.PageTokens,
	}
	if d.Quantization == "" {
		d.Quantization = "not quantized"
	}
	_, templateErr := readTemplate(src)
	d.HasChatTemplate = templateErr == nil
	d.Need = Need{
		WeightsBytes: w.Bytes(),
		StateBytes:   d.StateBytesPerSeq * int64(p.runner.Slots),
		ScratchBytes: int64(runner.ScratchBytes(m, p.runner)),
	}
	p.sizeKV(o)
	d.Need.KVBytes, d.PlannedTokens = p.pages.Bytes(p.pageSizes), o.ContextTokens
	p.runner.Pages, p.runner.StartPages = p.pages.Total(), p.pages.Start
	return p, nil
}

// limit is the most tokens that attention layers keep, 0 where no sequence gets longer than that
// anyway.
func (p *plan) limit(o *Options) int {
	longest := p.spec.ContextTokens
	if o.ContextTokens > 0 {
		longest = min(longest, o.ContextTokens)
	}
	if o.MaxKVTokens >= longest {
		return 0
	}
	return o.MaxKVTokens
}

// sizeKV chooses the context and the number of KV pages. A context that the user asked for is kept,
// fit or not; otherwise it is the model's own, or the longest whose pages take at most half of what
// the rest leaves free. Memory permitting, there are pages for two sequences of that length:
// streams seldom all grow long at once, and preemption sees to it when they do. Starts come out of
// the same half.
func (p *plan) sizeKV(o *Options) {
	context := o.ContextTokens
	if context <= 0 || context > p.spec.ContextTokens {
		context = p.spec.ContextTokens
	}
	half := max(0, available(o)-p.description.Need.TotalBytes()) / 2
	start := min(p.description.KVStartTokens, context)
	if start > 0 && p.askedTokens <= 0 { // it may be longer than all that there is room for
		if room := int(half/p.pageSizes.Start) * cache.PageTokens; room < start {
			context = min(context, max(room, minContextTokens))
			start = min(start, context)
		}
	}
	p.sizeStarts(o, start, half)
	affordable := 1 << 40 // tokens behind starts
	if p.pageSizes.Rest > 0 {
		affordable = int(max(half-p.pages.Bytes(p.pageSizes), 0)/p.pageSizes.Rest) *
			cache.PageTokens
	}
	if p.askedTokens <= 0 {
		context = min(context, max(start+affordable, min(minContextTokens, context)))
	}
	o.ContextTokens = context
	behind := max(0, context-start)
	tokens := max(behind, min(behind*min(o.MaxSequences, 2), affordable))
	if p.pageSizes.Rest == 0 { // pages are numbers only
		tokens = context * o.MaxSequences
	}
	p.pages.Rest = pagesOf(tokens)
}

// sizeStarts chooses how many sequences have pages for their first tokens: every one that runs and
// as many that are remembered, if those take no more than a quarter of bytes, and one at least.
func (p *plan) sizeStarts(o *Options, tokens int, bytes int64) {
	if tokens == 0 {
		return
	}
	one := pagesOf(tokens)
	wanted := 2 * o.MaxSequences
	if o.NoPrefixCache {
		wanted = o.MaxSequences
	}
	p.pages.Start = one * int(max(1, min(int64(wanted), bytes/4/(int64(one)*p.pageSizes.Start))))
}

// keptStates chooses how many slots, of perState bytes, are kept beside those of running sequences.
func (p *plan) keptStates(o *Options, perState int64) {
	switch {
	case perState == 0 || o.NoPrefixCache:
		o.KeptStates = 0
	case o.KeptStates <= 0:
		// a sixteenth of it for 32 states at most, and more of them where they are small
		memory := available(o)
		o.KeptStates = int(max(4, min(memory/16/perState, 32), min(memory/256/perState, 256)))
	}
}

// available is what a model may take: what the caller says, or what the system has free less a
// reserve for everything else.
func available(o *Options) int64 {
	if o.AvailableBytes > 0 {
		return o.AvailableBytes
	}
	v, err := mem.VirtualMemory()
	if err != nil {
		slog.Warn("free memory is unknown", "err", err)
		return 1 << 62
	}
	return int64(v.Available) - min(1<<30, int64(v.Total)/16)
}

// fits returns a problem with the numbers unless the plan's need is available.
func (p *plan) fits(o *Options) error {
	need, have := p.description.Need.TotalBytes(), available(o)
	if need <= have {
		return nil
	}
	fix := "Close other apps, or pick a smaller model or a stronger quantization."
	n := p.description.Need
	starts := prefix.Amount{Start: p.pages.Start}.Bytes(p.pageSizes)
	if rest := have - (need - n.KVBytes) - starts; rest > 0 && p.description.KVBytesPerToken > 0 {
		if tokens := int64(p.description.KVStartTokens) +
			rest/p.description.KVBytesPerToken; tokens >= minContextTokens {
			fix = fmt.Sprintf("A context of %d tokens would fit.", tokens/1024*1024)
		}
	}
	if fewer := need - n.StateBytes*int64(o.MaxSequences-1)/int64(
		o.MaxSequences); o.MaxSequences > 1 && fewer <= have {
		fix = fmt.Sprintf("Fewer requests at once would fit: %d ask for %s of state.",
			o.MaxSequences, gb(n.StateBytes))
	}
	return problem.New(problem.DoesNotFit, "The model does not fit",
		fmt.Sprintf(
			"it needs %s (weights %s, KV cache %s for %d tokens, state %s, scratch %s), %s is free",
			gb(need), gb(n.WeightsBytes), gb(n.KVBytes), o.ContextTokens, gb(n.StateBytes),
			gb(n.ScratchBytes), gb(max(have, 0))), fix)
}

func gb(bytes int64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/(1<<30)) }

// Open loads a model and starts its engine. Errors are Problems. Ending ctx stops the loading.
func Open(ctx context.Context, src Source, o Options) (*Engine, error) {
	p, err := makePlan(src, &o)
	if err != nil {
		return nil, err
	}
	if err := p.fits(&o); err != nil {
		return nil, err
	}
	e := &Engine{options: o, live: map[*request]bool{}, wake: make(chan struct{}, 1),
		ended: make(chan struct{}), pageSizes: p.pageSizes,
		startTokens: p.description.KVStartTokens}
	e.pause = e.sleep
	if e.Texts, err = readTexts(src, p.config); err != nil {
		return nil, err
	}
	if e.device, err = openDevice(&e.options); err != nil {
		return nil, err
	}
	if e.options.Device == DeviceCPU {
		e.device = kernels.NewCounted(e.device, &e.beats)
	}
	if err := e.load(ctx, src, p); err != nil {
		e.device.Close()
		return nil, err
	}
	e.info = Info{Description: p.description, Device: e.device.Name(),
		KVFormat:    p.kv.Describe(p.spec.Layers) + cache.DescribeRings(p.spec.Layers),
		StateFormat: p.state.Describe(p.spec.Layers)}
	e.info.ContextTokens = o.ContextTokens
	n := p.description.Need
	e.stats = Stats{WeightsBytes: n.WeightsBytes, KVBytes: n.KVBytes, KVUntouchedBytes: n.KVBytes,
		StateBytes: n.StateBytes, ScratchBytes: n.ScratchBytes}
	e.recurrent = p.description.StateBytesPerSeq > 0
	e.sched = e.newScheduler(p.pages)
	e.books = newBooks(o.History, e.weights.Fingerprint(),
		e.info.KVFormat+", states "+e.info.StateFormat, cachemiss.Outcome{
			CacheOff: o.NoPrefixCache, Recurrent: e.recurrent,
			Decode: func(tokens []int32) string { return e.tokenizer.Decode(tokens, false) }})
	e.connect(p)
	go e.loop()
	go e.books.keep(e.ended)
	return e, nil
}

// newScheduler is a scheduler over pages pages that knows no prefix yet.
func (e *Engine) newScheduler(pages prefix.Amount) *sched.Scheduler {
	o := &e.options
	hot := int64(0)
	if o.HotCacheBytes > 0 && e.pageSizes.Rest > 0 {
		hot = max(o.HotCacheBytes, e.pageSizes.Rest)
	}
	return sched.New(sched.Options{Pages: pages.Total(), StartPages: pages.Start,
		StartTokens: e.startTokens, PageTokens: cache.PageTokens, Slots: o.MaxSequences,
		NoPrefixes: o.NoPrefixCache, Recurrent: e.recurrent, StateSlots: o.KeptStates,
		PreferPrefill: o.PreferPrefill,
		HotBytes:      hot, PageBytes: e.pageSizes, HotConversations: o.PromptCacheSize,
		ChunkTokens: o.ChunkTokens, MixedChunkTokens: min(mixedChunkTokens, o.ChunkTokens)})
}

// load maps the weights, reads them once so that the first answer does not wait for the disk, and
// allocates the caches.
func (e *Engine) load(ctx context.Context, src Source, p *plan) (err error) {
	if e.weights, err = checkpoint.Open(src, p.config, e.device); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil { // the system refused memory that it had called available
			err = problem.New(problem.DoesNotFit, "The model does not fit", fmt.Sprint(r),
				"Close other apps, or pick a smaller model.")
		}
		if err != nil {
			_ = e.weights.Close()
		}
	}()
	if err := e.weights.Prefault(ctx, e.options.Progress); err != nil {
		return problem.Wrap(problem.Cancelled, err, "Loading the model was stopped", "")
	}
	m, err := models.Load(e.weights)
	if err != nil {
		return err
	}
	noteCopies(e.device)
	e.runner = runner.New(e.device, m, p.runner)
	if err := e.device.Sync(); err != nil {
		return problem.Wrap(problem.DoesNotFit, err, "The GPU refused memory",
			"Close other apps, or pick a smaller model.")
	}
	keepResident(e.device)
	return nil
}
