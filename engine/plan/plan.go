// Package plan computes the memory that a model needs, before its weights are read. It also chooses
// the longest context that fits.
//
// A plan loads the architecture on a device that counts bytes instead of allocating them
// (kernels.NewDryRun), and runs a batch of the maximum size there. So no architecture needs a
// formula for its memory, and the figures cannot drift from the code.
//
//	plan.go       Plan: the model's shapes, its needed memory, and whether that fits
//	need.go       the figures: what a model needs, and the longest context that fits
//	kv.go         chooses how many KV pages and kept states there are
//	draftmodel.go the memory of a model or a drafter that drafts for this one
//	vectors.go    what differs for a model that computes vectors
//	buffers.go    fits caches and activations into the GPU's buffers
//	cachecost.go  the cache memory for a config.json alone, without a tokenizer or weights
package plan

import (
	"cmp"
	"errors"
	"fmt"

	"headroom/engine/cache"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/models"
	"headroom/engine/prefix"
	"headroom/engine/problem"
	"headroom/engine/runner"
	"headroom/engine/textproc"
	"headroom/kernels"
)

const (
	defaultMaxSequences = 8
	defaultChunkTokens  = 512
	// minContextTokens is the shortest context that a plan chooses, because with a shorter one a
	// model would be useless.
	minContextTokens = 2048
)

// Options configure a plan. The zero value suits most models.
type Options struct {
	KVFormat      cache.FormatOptions
	StateFormat   string // format of recurrent states; see cache.ParseStateFormat
	MaxKVTokens   int    // maximum number of tokens that an attention layer keeps; 0: all
	ContextTokens int    // longest sequence; 0: as long as the model and memory allow
	MaxSequences  int    // sequences that run at once; 0: 8
	ChunkTokens   int    // maximum number of prompt tokens in one pass; 0: 512, for vectors 1,024
	KeptStates    int    // recurrent states kept for later prompts; 0: as memory allows
	NoPrefixCache bool   // disables the prefix cache
	DraftTokens   int    // proposed tokens that a pass verifies; 0: none
	SelectTokens  int    // positions that SnapKV selects, which have a second copy; 0: none
	SelectFrom    int    // length of the shortest prompt for which it does
	NoDrafter     bool   // leave out the model's block that drafts
	AdapterBytes  int64  // of the adapter with which the model is started; 0: there is none
	// DraftModel drafts in place of the model's own block; nil: there is none.
	DraftModel     *DraftModel
	AvailableBytes int64 // memory that the model may use; 0: ask the system
	LongestBuffer  int   // bytes of the device's longest buffer; 0: no limit
}

func (o *Options) setDefaults() {
	if o.MaxSequences <= 0 {
		o.MaxSequences = defaultMaxSequences
	}
	if o.ChunkTokens <= 0 {
		o.ChunkTokens = defaultChunkTokens
	}
}

// Check returns a Problem if an option is valid for no model.
func (o Options) Check() error { return (&Plan{Options: o}).parseFormats() }

// Description describes a model. It is made from the headers of the model's files alone.
type Description struct {
	Architecture    string // model_type in config.json
	Quantization    string // of most weights, for example "4-bit, group 64"; else NotQuantized
	SizeBytes       int64  // of the checkpoint files
	Parameters      int64  // in all files; a packed weight counts as the values that it encodes
	ContextTokens   int    // the longest context that the model was trained for
	KVBytesPerToken int64  // sum over the layers that keep every token, in the requested format
	// The first KVStartTokens tokens take KVStartBytesPerToken bytes each instead of
	// KVBytesPerToken. Both are 0 if there is no start in float16.
	KVStartTokens        int
	KVStartBytesPerToken int64
	// StateBytesPerSeq is the memory of a sequence in addition to its pages: its recurrent state,
	// and the rings of layers with a window.
	StateBytesPerSeq int64
	// DraftKVBytesPerToken is that of a draft model, in addition; 0: there is none.
	DraftKVBytesPerToken int64
	Need                 Need // with the requested options, at PlannedTokens; see need.go
	PlannedTokens        int  // the context that was requested, or else the longest that fits
	RequestedTokens      int  // the context that was requested; 0: none
	HasChatTemplate      bool
	Task                 modelfile.Task // what the model is for; "": to generate text
	Dimensions           int            // of the vectors that it computes; 0: it computes none
	Normalized           bool           // these vectors have length 1
	Drafts               bool           // a block that drafts is loaded with it (MTP)
	// BlockUnused is why the block that drafts, of which the files have at least a part, is not
	// loaded with the model; "": it is, there is none, or nobody asks for it.
	BlockUnused string
	// BeyondVocabulary names a token of the tokenizer that the model lacks: text with it is
	// refused. "": none is known (textproc.BeyondVocabulary). Only Describe sets it.
	BeyondVocabulary string
	// DraftModelUnused is why the requested draft model does not draft; "": it does, there is none,
	// or nothing is known to be wrong yet. Only opening the model compares the vocabularies.
	DraftModelUnused string
	// Plain describes the model without what drafts for it, which loading leaves out if it does not
	// fit; nil: nothing drafts for it. Only Describe sets it.
	Plain *Description

	// What the figures depend on besides (need.go): the number of sequences that there are start
	// pages for at most, Options.SelectTokens and SelectFrom, and the longest context of the draft
	// model.
	MostStarts, SelectTokens, SelectFrom, DraftContextTokens int
}

// Plan holds a model's shapes and the memory that they need.
type Plan struct {
	// Options are the requested options with defaults filled in. ContextTokens, KeptStates and
	// ChunkTokens have the chosen values.
	Options
	Config      *checkpoint.Config
	KV          cache.Format
	State       cache.StateFormat
	Spec        models.Spec // with MaxKVTokens applied to its layers
	Pages       prefix.Amount
	PageSizes   prefix.Sizes
	Runner      runner.Options
	Description Description
	Unread      []string // tensors of the files that the model does not read
	CopiedBytes int64    // of weights that loading copies or transposes
	DraftSlots  int      // slots for the states before drafts
	// DrafterError is why the model's block that drafts cannot be used; nil: nothing is wrong.
	DrafterError error
	// Draft is the plan of the draft model; nil: there is none. Attached is the config.json of a
	// drafter that is a part of this plan (models.Attached); nil: there is none. DraftModelError is
	// why a draft model that is not required cannot be used.
	Draft           *Plan
	Attached        *checkpoint.Config
	DraftModelError error
	// Block is the folder of a block that drafts, if the draft model is one; nil: it is none.
	Block *checkpoint.Source

	draftCacheBytes int64 // of Need.StateBytes
	requestedTokens int   // Options.ContextTokens as requested
	requestedStates int   // Options.KeptStates as requested
	largestBytes    int   // of an activation
}

// Architectures returns the values of model_type in config.json of supported language models,
// sorted. Supported adds those of encoders.
func Architectures() []string { return models.Architectures() }

// Supported returns Architectures and the encoders, sorted.
func Supported() []string { return models.Supported() }

// Describe reads the headers of a model's files and returns its description. The description
// includes the memory that the model would need with o. Errors are Problems.
func Describe(src checkpoint.Source, o Options) (Description, error) {
	p, err := New(src, o)
	if err != nil {
		return Description{}, err
	}
	d := p.Description
	d.BeyondVocabulary = textproc.BeyondVocabulary(src, p.Spec.VocabSize)
	if p.DraftModelError != nil {
		d.DraftModelUnused = problem.From(p.DraftModelError).Why
	}
	if p.Spec.Drafts || p.Draft != nil || p.Attached != nil {
		o.DraftTokens = 0
		if plain, err := New(src, o); err == nil {
			d.Plain = &plain.Description
		}
	}
	return d, nil
}

// New plans a model without reading its weights. Errors are Problems. If the model does not fit,
// New succeeds and Check returns the error.
func New(src checkpoint.Source, o Options) (made *Plan, err error) {
	p := &Plan{Options: o, requestedTokens: max(o.ContextTokens, 0),
		requestedStates: o.KeptStates}
	p.setDefaults()
	if err := p.parseFormats(); err != nil {
		return nil, err
	}
	p.Config, err = src.Config()
	if p.Config != nil {
		// That the quantization is not supported matters less: another would not help.
		if refused := models.Check(p.Config); refused != nil {
			return nil, refused
		}
	}
	if err != nil {
		return nil, err
	}
	if err := p.planDraftModel(src); err != nil {
		return withoutDraftModel(src, o, err)
	}
	d := kernels.NewDryRun()
	w, err := checkpoint.Open(src, p.Config, d)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	drafter, err := p.OpenAttached(d)
	if err != nil {
		return withoutDraftModel(src, o, Refusal(err))
	}
	defer drafter.Close()
	load := models.Load
	if p.loadsDrafter() {
		load = models.LoadDrafter
		if err := p.attachBlock(w); err != nil {
			return withoutDraftModel(src, o, err)
		}
	}
	m, err := load(w)
	switch {
	case p.Block != nil && err != nil:
		return withoutDraftModel(src, o, Refusal(err))
	case p.Block != nil && !m.Spec().Drafts:
		return withoutDraftModel(src, o, RefuseDraftModel("it is no block of one layer"))
	case err != nil && p.loadsDrafter(): // decoding ahead is not worth a refusal
		o.NoDrafter = true
		plain, plainErr := New(src, o)
		if plainErr == nil {
			plain.refuseBlock(err)
		}
		return plain, plainErr
	case err != nil:
		return nil, err
	}
	if p.loadsDrafter() && !m.Spec().Drafts {
		p.DrafterError = models.CheckBlockTensors(w)
	}
	if err := p.addAttached(src, m, drafter); err != nil {
		return withoutDraftModel(src, o, err)
	}
	hasTemplate, err := textproc.Check(src)
	if err != nil {
		return nil, err
	}
	if m.Spec().Vectors != nil {
		if err := p.planVectors(m.Spec(), o); err != nil {
			return nil, err
		}
	}
	defer refusedShape(&err)
	p.Unread, p.CopiedBytes = w.Unread(), d.AllocatedBytes
	p.measure(m, w, w.MappedBytes()+drafter.MappedBytes()+d.AllocatedBytes+p.AdapterBytes)
	p.Description.HasChatTemplate = hasTemplate
	if p.DrafterError != nil {
		p.refuseBlock(p.DrafterError)
	}
	if m.Spec().Vectors == nil && o.DraftModel != nil && p.DraftTokens == 0 && o.DraftTokens > 0 {
		return withoutDraftModel(src, o, RefuseDraftModel("the large model cannot decode ahead, "+
			"because it has recurrent states and a limited KV cache"))
	}
	if p.Draft != nil {
		if err := cmp.Or(p.Check(), p.Draft.CheckBuffers()); err != nil {
			return withoutDraftModel(src, o, err)
		}
	}
	if err := p.Check(); err != nil && p.Attached != nil {
		return withoutDraftModel(src, o, err)
	}
	if p.DraftTokens > 0 && p.Check() != nil { // decoding ahead is not worth a refusal
		o.DraftTokens = 0
		return New(src, o)
	}
	return p, nil
}

// refuseBlock records why the model's own block that drafts cannot be used.
func (p *Plan) refuseBlock(err error) {
	p.DrafterError, p.Description.BlockUnused = err, problem.From(err).Why
}

// loadsDrafter reports whether the model is loaded with its block that drafts, if it has one. A
// limited KV cache consists of rings, which the block cannot use.
func (p *Plan) loadsDrafter() bool {
	return p.DraftTokens > 0 && !p.NoDrafter && p.MaxKVTokens == 0 && p.Draft == nil &&
		p.Attached == nil
}

// Open opens the weights of the model that was planned, those of its block included. src is that of
// New. Errors are Problems.
func (p *Plan) Open(src checkpoint.Source, d kernels.Device) (*checkpoint.Weights, error) {
	w, err := checkpoint.Open(src, p.Config, d)
	if err != nil || !p.Spec.Drafts || p.Attached != nil {
		return w, err
	}
	if err := p.attachBlock(w); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	models.OpenBlock(w)
	return w, nil
}

// Load builds the model that was planned, with the weights of the attached drafter if there is one.
// src is that of New. Errors are Problems.
func (p *Plan) Load(src checkpoint.Source, w, drafter *checkpoint.Weights) (models.Model, error) {
	if p.Spec.Drafts && p.Attached == nil {
		return models.LoadDrafter(w)
	}
	m, err := models.Load(w)
	if err == nil {
		err = p.addAttached(src, m, drafter)
	}
	return m, err
}

// refusedShape recovers from the panic of an operator that does not support a shape, and stores it
// in *err as a Problem. It must be deferred.
func refusedShape(err *error) {
	if r := recover(); r != nil {
		*err = problem.New(problem.UnknownArchitecture,
			"Headroom does not support the shapes of this model", fmt.Sprint(r),
			"Pick another model.")
	}
}

// parseFormats parses the cache formats in the options, and checks MaxKVTokens.
func (p *Plan) parseFormats() (err error) {
	if p.KV, err = cache.ParseFormat(p.KVFormat); err != nil {
		return problem.Wrap(problem.BadRequest, err, "This KV cache format does not exist", "")
	}
	if n := p.MaxKVTokens; n < 0 || 0 < n && n < cache.MinLimitTokens {
		return problem.New(problem.BadRequest, "The KV cache limit is too small",
			fmt.Sprintf("the limit is %d tokens, the minimum is %d", n, cache.MinLimitTokens),
			"Use 0 for no limit.")
	}
	if p.State, err = cache.ParseStateFormat(p.StateFormat); err != nil {
		return problem.Wrap(problem.BadRequest, err,
			"This format of recurrent states does not exist", "")
	}
	return nil
}

// NotQuantized is the Quantization of a model whose matrices are not packed.
const NotQuantized = "not quantized"

// measure fills in the fields that depend on the shapes of m and the sizes of w. weights is the
// memory that m needs when it is loaded.
func (p *Plan) measure(m models.Model, w *checkpoint.Weights, weights int64) {
	p.Spec = m.Spec()
	limit := p.kvLimit()
	p.Spec.Layers = cache.Limit(p.Spec.Layers, limit)
	p.chooseDraftTokens()
	p.Runner = runner.Options{KV: p.KV, State: p.State, MaxKVTokens: limit,
		LogitsRows: p.MaxSequences + p.DraftTokens, LongestBuffer: p.LongestBuffer}
	scratch := p.chooseChunk(m)
	slotBytes := cache.SlotBytes(p.Spec.Layers, p.State) +
		cache.RingBytes(p.Spec.Layers, p.KV, p.Runner.BatchRows)
	p.chooseKeptStates(slotBytes)
	p.chooseDraftSlots(slotBytes)
	p.Runner.Slots = p.MaxSequences + p.KeptStates + p.DraftSlots
	p.PageSizes = prefix.Sizes{Start: cache.StartPageBytes(p.Spec.Layers, p.KV),
		Rest: cache.PageBytes(p.Spec.Layers, p.KV)}
	d := &p.Description
	*d = Description{
		Architecture:     p.Config.ModelType,
		Quantization:     cmp.Or(w.Packing(), NotQuantized),
		SizeBytes:        w.SizeBytes(),
		Parameters:       w.Parameters(),
		ContextTokens:    p.Spec.ContextTokens,
		KVBytesPerToken:  p.PageSizes.Rest / cache.PageTokens,
		StateBytesPerSeq: slotBytes,
		Drafts:           p.Spec.Drafts && p.Attached == nil,

		KVStartTokens:        p.KV.Start(p.Spec.Layers),
		KVStartBytesPerToken: p.PageSizes.Start / cache.PageTokens,

		RequestedTokens: p.requestedTokens, MostStarts: p.mostStarts(),
		SelectTokens: p.SelectTokens, SelectFrom: p.SelectFrom,
	}
	guaranteed := p.MaxSequences + p.GuaranteedStates()
	d.Need = Need{
		WeightsBytes: weights,
		StateBytes:   p.SlotBytes() * int64(guaranteed),
		ScratchBytes: int64(scratch),
	}
	if v := p.Spec.Vectors; v != nil {
		d.Task = v.Task
		if v.Task == modelfile.Embed {
			d.Dimensions, d.Normalized = v.Size, v.Normalize
		}
	}
	p.reserveDraftModel()
	p.sizeKV()
	p.sizeDraftPages()
	need := d.NeedAt(p.ContextTokens)
	d.Need, d.PlannedTokens = need, p.ContextTokens
	d.Need.GrowthBytes = p.Pages.Bytes(p.PageSizes) - need.KVBytes +
		p.SlotBytes()*int64(p.Runner.Slots-guaranteed)
	p.Runner.Pages, p.Runner.StartPages = p.Pages.Total(), p.Pages.Start
}

// SlotBytes returns the memory of a slot: the state and rings of a sequence, and the hidden states
// that an assistant reads.
func (p *Plan) SlotBytes() int64 {
	return p.Description.StateBytesPerSeq + cache.RecentBytes(p.Spec.Layers)
}

// Check returns a Problem if the model needs more memory than is available. The Problem states both
// amounts.
func (p *Plan) Check() error {
	n := p.Description.Need
	need, available := n.TotalBytes(), p.available()
	if need <= available {
		return nil
	}
	size := problem.Memory
	return problem.New(problem.DoesNotFit, "The model does not fit",
		fmt.Sprintf(
			"it needs %s (weights %s, one conversation of %d tokens %s, state %s, scratch %s), "+
				"%s is available for a model",
			size(need), size(n.WeightsBytes), p.ContextTokens, size(n.KVBytes),
			size(n.StateBytes), size(n.ScratchBytes), size(available)), p.suggestion(available))
}

// suggestion returns a sentence on how to make the model fit into the available bytes.
func (p *Plan) suggestion(available int64) string {
	n := p.Description.Need
	need := n.TotalBytes()
	sequences := int64(p.MaxSequences)
	states := n.StateBytes - p.draftCacheBytes
	if fewer := need - states*(sequences-1)/sequences; sequences > 1 && fewer <= available {
		return fmt.Sprintf(
			"Allow fewer requests at once: the recurrent states of %d sequences take %s.",
			sequences, problem.Memory(states))
	}
	if tokens := p.Description.LargestContext(available); tokens >= minContextTokens &&
		tokens < p.ContextTokens {
		return fmt.Sprintf("A context of %d tokens would fit.", tokens/1024*1024)
	}
	return "Close other apps, or pick a model that is smaller or quantized to fewer bits."
}
