// Package runner runs forward passes. A step copies a batch to the device, runs the architecture
// over it, and returns the logits (Step). On a GPU it can also choose the tokens there and return
// them one step later (Start, Await). New allocates all its memory. A step allocates nothing,
// except for the page table of a slot's rings when a sequence first runs in it.
package runner

import (
	"fmt"

	"headroom/engine/batch"
	"headroom/engine/cache"
	"headroom/engine/models"
	"headroom/engine/ops"
	"headroom/engine/sample"
	"headroom/kernels"
)

// Options size a runner. All fields but MaxKVTokens, State and StartPages are required.
type Options struct {
	KV          cache.Format      // of keys and values
	MaxKVTokens int               // tokens that an attention layer keeps (cache.Limit); 0: all
	State       cache.StateFormat // of recurrent states
	Pages       int               // KV pages, shared by all sequences
	StartPages  int               // of Pages: the first ones, for the first KV.Start tokens
	Slots       int               // recurrent states and rings, of running and cached sequences
	BatchRows   int               // maximum number of rows of one step
	LogitsRows  int               // maximum number of rows of one step with logits
}

// Runner is a model with its memory on a device. The goroutine that calls its methods owns the
// device.
type Runner struct {
	device kernels.Device
	model  models.Model
	spec   models.Spec
	kv     cache.Format
	state  cache.StateFormat
	layers []cache.Layer

	startPages                             int32
	startRegions, pageRegions, slotRegions []cache.Region

	ops    *ops.Context
	tokens kernels.Tensor // I32 [BatchRows, 1]
	batch  batch.Batch
	round  [1]batch.Round

	async  kernels.AsyncDevice // the device; nil: its passes are synchronous
	chosen [2]kernels.Tensor   // I32 [LogitsRows, 1], passes alternate between the two
	last   int                 // index in chosen of the last Start
}

// New allocates the memory that the model needs to run on d.
func New(d kernels.Device, m models.Model, o Options) *Runner {
	spec := m.Spec()
	spec.Layers = cache.Limit(spec.Layers, o.MaxKVTokens)
	r := &Runner{
		device: d,
		model:  m,
		spec:   spec,
		kv:     o.KV,
		state:  o.State,
		layers: cache.New(d, spec.Layers,
			cache.Options{Format: o.KV, State: o.State, Pages: o.Pages, StartPages: o.StartPages,
				Slots: o.Slots, SpanTokens: o.BatchRows}),
		ops:    ops.NewContext(d, ScratchBytes(m, o)),
		tokens: kernels.NewTensor(d, kernels.I32, o.BatchRows, 1),
	}
	r.startPages, r.startRegions = int32(o.StartPages), cache.PageRegions(r.layers, true)
	r.pageRegions, r.slotRegions = cache.PageRegions(r.layers, false), cache.SlotRegions(r.layers)
	if r.async, _ = d.(kernels.AsyncDevice); r.async != nil {
		for i := range r.chosen {
			r.chosen[i] = kernels.NewTensor(d, kernels.I32, o.LogitsRows, 1)
		}
	}
	return r
}

// ScratchBytes returns the activation memory of the largest step, measured by a pass on a device
// that allocates nothing.
func ScratchBytes(m models.Model, o Options) int {
	d := kernels.NewDryRun()
	pages := (o.BatchRows + cache.PageTokens - 1) / cache.PageTokens
	table := make([]int32, pages)
	for i := range table {
		table[i] = int32(i)
	}
	r := &Runner{
		device: d,
		model:  m,
		layers: sequentialCaches(d, cache.Limit(m.Spec().Layers, o.MaxKVTokens),
			cache.Options{Format: o.KV, State: o.State, Pages: pages, Slots: 1,
				SpanTokens: o.BatchRows}),
		ops: ops.NewContext(d, 0),
	}
	r.batch = batch.Batch{
		Tokens: kernels.NewTensor(d, kernels.I32, o.BatchRows, 1),
		Spans:  []kernels.Span{{Rows: o.BatchRows, Pages: table}},
		Logits: make([]int32, o.LogitsRows),
	}
	r.batch.Rounds = []batch.Round{{Spans: r.batch.Spans}}
	m.Forward(r.ops, &r.batch, r.layers)
	return r.ops.PeakBytes()
}

// sequentialCaches allocates caches for page tables that count up from 0.
func sequentialCaches(d kernels.Device, specs []cache.LayerSpec, o cache.Options) []cache.Layer {
	o.StartPages = min(o.Pages, o.Format.Start(specs)/cache.PageTokens)
	return cache.New(d, specs, o)
}

// Step runs tokens through the model. spans assign them to sequences. It returns the logits of the
// rows in logits, [len(logits), VocabSize], in device memory that is valid until the next step.
// rounds are required only if a state is to be kept inside a span.
func (r *Runner) Step(tokens []int32, spans []kernels.Span, logits []int32,
	rounds ...batch.Round) ([]float32, error) {
	if err := r.fits(tokens); err != nil {
		return nil, err
	}
	defer r.ops.Release(r.ops.Mark()) // also frees the activations if the pass panics
	out := r.forward(tokens, spans, logits, rounds)
	if err := r.Sync(); err != nil {
		return nil, err
	}
	return out.Float32s(), nil
}

// Async reports whether Start and Await can be used, because the device runs passes asynchronously.
func (r *Runner) Async() bool { return r.async != nil }

// Pass is a pass in flight.
type Pass struct {
	ticket kernels.Ticket
	chosen kernels.Tensor
}

// Start launches a step in which the device also chooses a token for each row in logits. The rows
// of choices correspond to those of logits. Tokens may be placeholders (sampling.Placeholder) for
// tokens that the previous step chooses. At most two passes may be in flight.
func (r *Runner) Start(tokens []int32, spans []kernels.Span, logits []int32, choices *sample.Rows,
	rounds ...batch.Round) (Pass, error) {
	if err := r.fits(tokens); err != nil {
		return Pass{}, err
	}
	defer r.ops.Release(r.ops.Mark())
	out := r.forward(tokens, spans, logits, rounds)
	p := Pass{chosen: r.chosen[1-r.last].RowRange(0, len(logits))}
	if len(logits) > 0 {
		r.ops.Choose(p.chosen, out, choices.Settings, choices.Adjusted(), r.chosen[r.last])
	}
	r.last = 1 - r.last
	p.ticket = r.async.Commit()
	return p, nil
}

// Await waits for a pass and returns the tokens that it has chosen. A negative one is an error code
// (sampling.Fault). The result is in device memory and valid until Start has been called twice
// more.
func (r *Runner) Await(p Pass) ([]int32, error) {
	if err := r.async.Wait(p.ticket); err != nil {
		return nil, fmt.Errorf("runner: %s: %w", r.device.Name(), err)
	}
	return p.chosen.Int32s(), nil
}

// Sync waits for all passes and copies. It must be called before the host reads or writes pages and
// slots.
func (r *Runner) Sync() error {
	if err := r.device.Sync(); err != nil {
		return fmt.Errorf("runner: %s: %w", r.device.Name(), err)
	}
	return nil
}

func (r *Runner) fits(tokens []int32) error {
	if len(tokens) > r.tokens.Rows {
		return fmt.Errorf("runner: the step has %d rows, the limit is %d", len(tokens),
			r.tokens.Rows)
	}
	return nil
}

// forward runs a pass and returns the logits.
func (r *Runner) forward(tokens []int32, spans []kernels.Span, logits []int32,
	rounds []batch.Round) kernels.Tensor {
	if len(rounds) == 0 {
		r.round[0] = batch.Round{Spans: spans}
		rounds = r.round[:]
	}
	in := r.tokens.RowRange(0, len(tokens))
	r.ops.Feed(in, tokens, r.chosen[r.last])
	r.batch = batch.Batch{Tokens: in, Spans: spans, Logits: logits, Rounds: rounds}
	r.ops.SetPrefill(spans)
	return r.model.Forward(r.ops, &r.batch, r.layers)
}

// CopyPage copies a page of every attention layer without a window to another page of its kind.
func (r *Runner) CopyPage(from, to int32) { r.copy(r.PageRegions(from < r.startPages), from, to) }

// CopyState copies a slot: the recurrent state and the rings of every layer.
func (r *Runner) CopyState(from, to int32) { r.copy(r.slotRegions, from, to) }

func (r *Runner) copy(regions []cache.Region, from, to int32) {
	for i := range regions {
		g := &regions[i]
		r.ops.Copy(g.Buffer, g.Offset+int(from)*g.PieceBytes, g.Offset+int(to)*g.PieceBytes,
			g.PieceBytes)
	}
}

// PageRegions returns the memory of the start pages, or of the other pages, for the block store. A
// shared page is never written again, so any goroutine may read it while it holds a reference.
func (r *Runner) PageRegions(start bool) []cache.Region {
	if start {
		return r.startRegions
	}
	return r.pageRegions
}

// SlotRegions returns the memory of the slots.
func (r *Runner) SlotRegions() []cache.Region { return r.slotRegions }

// VocabSize returns the length of one row of logits.
func (r *Runner) VocabSize() int { return r.spec.VocabSize }
