// Package runner takes one step: it carries a batch to the device, runs the architecture's forward
// pass over it, and brings the logits back; or, on a device that works by itself, the tokens chosen
// from them, one step later (Start, Await). All its memory is allocated when it is made; a step
// allocates none, but for the page table of a slot's rings when a sequence first runs in it.
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

// Options size a runner. All fields but MaxKVTokens, State and StartPages are needed.
type Options struct {
	KV cache.Format // of keys and values
	// keys and values of a sequence that an attention layer keeps (cache.Limit); 0: all
	MaxKVTokens int
	State       cache.StateFormat // of recurrent states
	Pages       int               // KV pages shared by all sequences
	// of them, the first ones, for the first KV.Start tokens of sequences
	StartPages int
	Slots      int // recurrent states and rings: of running sequences, and kept ones
	BatchRows  int // most rows of one step
	LogitsRows int // most rows of one step whose logits are wanted
}

// Runner is a model with its memory on a device. The goroutine that calls Step owns the device.
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

	async  kernels.AsyncDevice // the device, nil if it is done with a pass when it returns
	chosen [2]kernels.Tensor   // I32 [LogitsRows, 1]: by passes in turn
	last   int                 // of chosen: what the last Start writes
}

// New allocates what the model needs to run on d.
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

// ScratchBytes is the activation memory that the largest step takes: a pass on a device that only
// measures.
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
		layers: alone(d, cache.Limit(m.Spec().Layers, o.MaxKVTokens),
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

// alone is memory for one sequence, whose page table counts up from 0.
func alone(d kernels.Device, specs []cache.LayerSpec, o cache.Options) []cache.Layer {
	o.StartPages = min(o.Pages, o.Format.Start(specs)/cache.PageTokens)
	return cache.New(d, specs, o)
}

// Step runs tokens, cut into spans, through the model. It returns the logits of the rows that
// logits names, one after another, each VocabSize long: device memory, valid until the next step.
// rounds are needed only if states are to be kept inside spans.
func (r *Runner) Step(tokens []int32, spans []kernels.Span, logits []int32,
	rounds ...batch.Round) ([]float32, error) {
	if err := r.fits(tokens); err != nil {
		return nil, err
	}
	defer r.ops.Release(r.ops.Mark()) // deferred: a pass that panics must not keep its activations
	out := r.forward(tokens, spans, logits, rounds)
	if err := r.Sync(); err != nil {
		return nil, err
	}
	return out.Float32s(), nil
}

// Ahead tells whether passes can be taken with Start, one ahead of their results: whether the
// device works while the host does not wait.
func (r *Runner) Ahead() bool { return r.async != nil }

// Pass is a pass under way.
type Pass struct {
	ticket kernels.Ticket
	chosen kernels.Tensor
}

// Start has the device take a step, and choose a token for each row that logits names by its row of
// choices. Tokens of the step may be placeholders for those of the last one (sampling.Placeholder).
// At most two may be under way: Await the one before the last first.
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

// Await waits for a pass and returns the tokens it has chosen, or what sampling.Fault explains:
// device memory, valid until the second Start from now.
func (r *Runner) Await(p Pass) ([]int32, error) {
	if err := r.async.Wait(p.ticket); err != nil {
		return nil, fmt.Errorf("runner: %s: %w", r.device.Name(), err)
	}
	return p.chosen.Int32s(), nil
}

// Sync waits for all passes and copies. Before anybody but the device looks at pages and slots, or
// writes them, it must be called.
func (r *Runner) Sync() error {
	if err := r.device.Sync(); err != nil {
		return fmt.Errorf("runner: %s: %w", r.device.Name(), err)
	}
	return nil
}

func (r *Runner) fits(tokens []int32) error {
	if len(tokens) > r.tokens.Rows {
		return fmt.Errorf("runner: step of %d rows, at most %d were planned", len(tokens),
			r.tokens.Rows)
	}
	return nil
}

// forward has the device take a pass.
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

// CopyPage copies a page of every attention layer without a window to another of its kind: the copy
// goes on where the two part.
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

// PageRegions, of the start or behind it, and SlotRegions are the memory of pages and slots, for
// those who write it to disk and read it back. A page that others may see is never written again,
// so it may be read from any goroutine while somebody holds it.
func (r *Runner) PageRegions(start bool) []cache.Region {
	if start {
		return r.startRegions
	}
	return r.pageRegions
}

// SlotRegions is described at PageRegions.
func (r *Runner) SlotRegions() []cache.Region { return r.slotRegions }

// VocabSize is the length of one row of logits.
func (r *Runner) VocabSize() int { return r.spec.VocabSize }
